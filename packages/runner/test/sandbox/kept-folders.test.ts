/** Persistent folders of a plugin are limited as a whole: in bytes and files, including deleted and hidden ones. */
import { mkdirSync, readdirSync, rmSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { verifies } from "../../../../test/support/verifies.ts";
import type { Sandbox } from "../../src/sandbox/open-sandbox.ts";
import {
  createEmptyFolder,
  finish,
  openTestSandbox,
  createPackageFolder,
  request,
} from "../support/sandbox.ts";

const MIB = 1024 * 1024;
const LIMITS = { kept_bytes: 8 * MIB, kept_files: 40 };
const MESSAGE = "Its persistent folder exceeds the limit of 8 MiB and 40 files.";

/** `data` is the data folder of an instrument, `state` the state of a hosted kernel plugin. */
type Kind = "data" | "state";

function createKeptFolder(): string {
  const folder = join(createEmptyFolder(), "kept");
  mkdirSync(folder, { mode: 0o700 });
  return folder;
}

async function runInFolder(sandbox: Sandbox, kind: Kind, folder: string, script: string) {
  const inside = kind === "data" ? "/data" : "/sandbox/state";
  const code = `import os, time\nos.chdir("${inside}")\n${script}`;
  const program = { kind: "system" as const, file: "/usr/bin/python3", args: ["-c", code] };
  const folders =
    kind === "data" ? { binds: [{ source: folder, target: inside, writable: true }] } : { state: folder };
  const launch = request(await createPackageFolder(), { program, lifetime: "pooled", ...folders });
  return await finish(await sandbox.launch(launch));
}

const WAIT = "time.sleep(60)";
const file = (name: string, mib: number) =>
  `f = open("${name}", "wb"); f.write(b"x" * ${mib * MIB}); f.flush()\n`;

/** Writes 12 MiB to deleted files that stay open. `indent` is the indentation of the Python code. */
const deleted = (name: string, indent = "") =>
  `${indent}fs = []\n${indent}for i in range(4):\n${indent}  f = open(f'${name}{i}', 'wb'); os.unlink(f'${name}{i}'); f.write(b'x' * ${3 * MIB}); f.flush(); fs.append(f)\n`;
const DEEP = "for i in range(20):\n  os.mkdir('d' * 250); os.chdir('d' * 250)\n";

verifies("sandbox.limits", "limits what a plugin keeps and reports disk as the exit cause", async () => {
  const sandbox = await openTestSandbox({ limits: LIMITS });
  for (const kind of ["data", "state"] as const) {
    const folder = createKeptFolder();
    const many = Array.from({ length: 3 }, (_, index) => file(`file-${index}`, 3)).join("");
    const { exitCause } = await runInFolder(sandbox, kind, folder, many + WAIT);
    expect(exitCause).toMatchObject({ cause: "disk", message: MESSAGE, signal: "SIGKILL" });
    // The plugin cannot be started again to write more.
    await expect(runInFolder(sandbox, kind, folder, WAIT)).rejects.toMatchObject({
      code: "launch_failed",
      message: `${MESSAGE} The plugin is not started until files are removed.`,
      fix: expect.stringContaining("kept_bytes"),
      details: { cause: "disk" },
    });
    rmSync(join(folder, "file-0"));
    expect((await runInFolder(sandbox, kind, folder, "time.sleep(1.5)")).exitCause).toMatchObject({
      cause: "exit",
      code: 0,
    });
    expect(readdirSync(folder).sort()).toEqual(["file-1", "file-2"]);
  }
});

test.each([
  ["many small files", "for i in range(60): open(f'f{i}', 'w').close()\n"],
  ["files in folders", "for i in range(30): os.makedirs(f'd{i}/e')\n"],
  [
    "deleted files that are still open",
    `fs = []\nfor i in range(4):\n  f = open(f'f{i}', 'wb'); os.unlink(f'f{i}'); f.write(b'x' * ${3 * MIB}); f.flush(); fs.append(f)\n`,
  ],
  ["an unreadable folder", `os.mkdir('d'); open('d/f', 'w').close(); os.chmod('d', 0)\n`],
  [
    "a very deep tree",
    "for i in range(36):\n  os.mkdir('d'); os.chdir('d')\nos.mkdir('e'); os.mkdir('f'); os.mkdir('g'); os.mkdir('h'); os.mkdir('i')\n",
  ],
  [
    "deleted files of a process that cannot be inspected",
    `import ctypes; ctypes.CDLL(None).prctl(4, 0)\n${deleted("f")}`,
  ],
  ["deleted files in a folder whose path is too long", `${DEEP}${deleted("f")}`],
  [
    "deleted files of a thread whose process seems to have ended",
    `import ctypes, threading, platform\ndef hide():\n${deleted("f", "  ")}  time.sleep(5)\nthreading.Thread(target=hide).start()\nctypes.CDLL(None).syscall({'x86_64': 60}.get(platform.machine(), 93), 0)\n`,
  ],
  [
    "deleted files that are mapped and closed",
    `import ctypes\nc = ctypes.CDLL(None); c.mmap.restype = ctypes.c_void_p\nfor i in range(4):\n  f = open(f'f{i}', 'w+b'); f.write(b'x' * ${3 * MIB}); f.flush(); c.mmap(None, ctypes.c_size_t(4096), 1, 1, f.fileno(), ctypes.c_long(0)); os.unlink(f'f{i}'); f.close()\n`,
  ],
])("counts %s towards the limit", async (_, script) => {
  const sandbox = await openTestSandbox({ limits: LIMITS });
  const folder = createKeptFolder();
  const { exitCause } = await runInFolder(sandbox, "data", folder, `${script}time.sleep(5)`);
  expect(exitCause).toMatchObject({ cause: "disk", message: MESSAGE });
});

test("ignores files that come and go within the limits", async () => {
  const sandbox = await openTestSandbox({ limits: LIMITS });
  const script = `end = time.time() + 2\nwhile time.time() < end:\n  ${file("a", 2).trim()}; f.close(); os.mkdir('b'); os.rmdir('b'); os.unlink('a')\n`;
  const { exitCause } = await runInFolder(sandbox, "data", createKeptFolder(), script);
  expect(exitCause).toMatchObject({ cause: "exit", code: 0 });
});

test("does not mistake short-lived processes and threads for hidden ones", async () => {
  const sandbox = await openTestSandbox({ limits: LIMITS });
  const script = `import threading
end = time.time() + 2
while time.time() < end:
  t = threading.Thread(target=lambda: None); t.start(); t.join()
  pid = os.fork()
  if pid == 0: os._exit(0)
  time.sleep(0.002)
  os.waitpid(pid, 0)
`;
  const { exitCause } = await runInFolder(sandbox, "data", createKeptFolder(), script);
  expect(exitCause).toMatchObject({ cause: "exit", code: 0 });
});
