/** Explanations of failed launches, from real files and, where possible, from real failed starts. */
import { chmodSync, existsSync, mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { BackplaneError } from "@backplane/contract";
import { createTestLogger } from "@backplane/test-kit/test-logger";
import { expect, onTestFinished, test } from "vitest";
import { PLUGIN_PATH } from "../../src/ports/settings.ts";
import { launch } from "../../src/processes/launch.ts";
import {
  explainEarlyExit,
  explainSpawn,
  type LaunchEnvironment,
} from "../../src/programs/diagnose-launch.ts";
import { executableFormatOf } from "../../src/programs/executable-format.ts";
import { ProcessTrees } from "../../src/supervision/process-trees.ts";
import { Watchdog } from "../../src/supervision/watchdog.ts";

const environment: LaunchEnvironment = {
  interpreters: { path: PLUGIN_PATH, node: process.execPath },
  host_paths: { home: "/nonexistent", path: "" },
  machine: { os: process.platform, arch: process.arch },
};

function createFolder(files: Record<string, string | Uint8Array>, mode = 0o755): string {
  const folder = mkdtempSync(join(tmpdir(), "backplane-diagnose-"));
  onTestFinished(() => rmSync(folder, { recursive: true }));
  for (const [name, content] of Object.entries(files)) {
    mkdirSync(join(folder, name, ".."), { recursive: true });
    writeFileSync(join(folder, name), content);
    chmodSync(join(folder, name), mode);
  }
  return folder;
}

/** Starts the entrypoint, which must fail, and returns the explanation. */
async function explainFailedLaunch(
  folder: string,
  entrypoint: string[],
  where = environment,
): Promise<string> {
  const watchdog = new Watchdog(createTestLogger());
  const runtime = {
    protocol: "vai.rpc.v1",
    transport: "stdio",
    entrypoint,
    env: {},
    capabilities: [],
  } as const;
  const plan = { runtime: { ...runtime, capabilities: [] }, folder, home: null };
  const trees = new ProcessTrees(createTestLogger());
  const failed = await launch(plan, where, watchdog, trees).then(
    ({ child }) => {
      child.kill("SIGKILL");
      throw new Error("it started");
    },
    (error: BackplaneError) => error,
  );
  await watchdog.close();
  await trees.close();
  expect(failed.code).toBe("launch_failed");
  expect(failed.message).not.toContain(folder);
  return failed.message;
}

function createElfHead(machine: number): Buffer {
  const head = Buffer.alloc(64);
  head.writeUInt32BE(0x7f454c46, 0);
  head[4] = 2;
  head[5] = 1;
  head.writeUInt16LE(machine, 18);
  return head;
}

test("explains a file that is not in the package", async () => {
  expect(await explainFailedLaunch(createFolder({}), ["./bin/plugin"])).toMatch(
    /"\.\/bin\/plugin" is not in the package/,
  );
});

test("explains a folder, an absolute path, and paths that leave the package by .. and by a link", async () => {
  const folder = createFolder({ "bin/plugin": "#!/bin/sh\n" });
  symlinkSync("/bin/sh", join(folder, "link"));
  expect(await explainFailedLaunch(folder, ["./bin"])).toMatch(/is a folder/);
  for (const out of ["/bin/sh", "../../../../bin/sh", "./link"]) {
    expect(await explainFailedLaunch(folder, [out])).toMatch(/lies outside the package/);
  }
});

test("explains a bare name that does not exist", async () => {
  expect(await explainFailedLaunch(createFolder({}), ["perl6-nightly"])).toMatch(
    /"perl6-nightly" is not on \/usr\/local\/bin:\/usr\/bin:\/bin\. Install it there/,
  );
});

test("mentions where a user's version manager keeps a missing program", async () => {
  const home = createFolder({
    ".pyenv/shims/python3.99": "#!/bin/sh\n",
    ".nvm/versions/node/v99.0.0/bin/node99": "#!/bin/sh\n",
    "own/bin/tool99": "#!/bin/sh\n",
  });
  const where = { ...environment, host_paths: { home, path: `/usr/bin:${home}/own/bin` } };
  expect(await explainFailedLaunch(createFolder({}), ["python3.99"], where)).toContain(
    "~/.pyenv/shims/python3.99",
  );
  expect(await explainFailedLaunch(createFolder({}), ["node99"], where)).toContain(
    "~/.nvm/versions/node/v99.0.0/bin/node99",
  );
  expect(await explainFailedLaunch(createFolder({}), ["tool99"], where)).toMatch(
    /~\/own\/bin\/tool99, which plugins cannot/,
  );
});

test("explains a script whose interpreter is missing", async () => {
  const folder = createFolder({
    here: "#!/opt/acme/bin/python3\n",
    nowhere: "#!/opt/acme/bin/acmelang -u\n",
  });
  expect(await explainFailedLaunch(folder, ["./here"])).toMatch(
    /names \/opt\/acme\/bin\/python3, which does not exist here, but .*\/python3 does; use #!\/usr\/bin\/env python3/,
  );
  expect(await explainFailedLaunch(folder, ["./nowhere"])).toMatch(
    /acmelang, which does not exist here: acmelang is not on/,
  );
});

test("explains DOS line endings in the first line", async () => {
  expect(
    await explainFailedLaunch(createFolder({ plugin: "#!/bin/sh\r\necho hi\r\n" }), ["./plugin"]),
  ).toMatch(/ends with a carriage return.*"sh\\r".*Unix line endings/);
});

test("explains a file that is not executable", async () => {
  const folder = createFolder({ plugin: "#!/bin/sh\n", words: "echo hi\n" }, 0o644);
  expect(await explainFailedLaunch(folder, ["./plugin"])).toMatch(
    /"\.\/plugin" is not executable\. Run `chmod \+x`/,
  );
  expect(await explainFailedLaunch(folder, ["./words"])).toMatch(/first line such as #!\/bin\/sh/);
});

test("does not pass text without an interpreter line to a shell", async () => {
  const folder = createFolder({ plugin: "touch ran\n", empty: "" });
  expect(await explainFailedLaunch(folder, ["./plugin"])).toMatch(/text file without an interpreter line/);
  expect(await explainFailedLaunch(folder, ["./empty"])).toMatch(/empty file/);
  expect(existsSync(join(folder, "ran"))).toBe(false);
});

test("explains a build for another machine", async () => {
  const other_machine = process.arch === "arm64" ? 62 : 183;
  const name = process.arch === "arm64" ? "x64" : "arm64";
  const mach = Buffer.from([0xcf, 0xfa, 0xed, 0xfe, 0x0c, 0, 0, 0x01, ...Buffer.alloc(24)]);
  const folder = createFolder({
    plugin: createElfHead(other_machine),
    mac: mach,
    win: Buffer.from("MZ\0\0"),
    blob: Buffer.from([1, 0, 2, 0]),
  });
  expect(await explainFailedLaunch(folder, ["./plugin"])).toContain(
    `is built for linux ${name}, but this machine is linux ${process.arch}`,
  );
  expect(await explainFailedLaunch(folder, ["./mac"])).toContain("is built for darwin arm64");
  expect(await explainFailedLaunch(folder, ["./win"])).toContain("is a Windows program");
  expect(await explainFailedLaunch(folder, ["./blob"])).toContain("not a program that this machine can run");
});

test("lists all architectures of a universal binary", () => {
  const fat = Buffer.alloc(64);
  fat.writeUInt32BE(0xcafebabe, 0);
  fat.writeUInt32BE(2, 4);
  fat.writeUInt32BE(0x01000007, 8);
  fat.writeUInt32BE(0x0100000c, 28);
  expect(executableFormatOf(fat)).toEqual({ kind: "mach-o", os: "darwin", arch: "x64 and arm64" });
});

test("explains system errors", async () => {
  const entry = { found: true, file: "/bin/sh", args: [], label: "./plugin", in_package: true } as const;
  const explain = (code: string) => explainSpawn({ ...entry, args: [] }, code, environment);
  expect(await explain("ETXTBSY")).toMatch(/still open for writing/);
  expect(await explain("EMFILE")).toMatch(/no room for another process/);
  expect(await explain("E2BIG")).toMatch(/too long/);
  expect(await explain("EIO")).toMatch(/could not be started \(EIO\)|loader is missing/);
});

test("explains an early exit by code, signal, stray output, stderr and common causes", async () => {
  const entry = {
    found: true,
    file: "/bin/sh",
    args: ["./x.py"],
    label: "python3",
    in_package: false,
  } as const;
  const explain = (code: number | null, signal: string | null, stderr: string, stray_output?: string) =>
    explainEarlyExit(
      { ...entry, args: ["./x.py"] },
      { exit: { code, signal }, stderr, stray_output },
      environment,
    );
  expect(await explain(3, null, "")).toBe(
    '"python3 ./x.py" exited with code 3 before it answered. It wrote nothing to stderr; start it manually to see why.',
  );
  expect(await explain(null, "SIGSEGV", "ouch\n")).toMatch(
    /was killed by SIGSEGV.*Last line on stderr: ouch$/,
  );
  expect(await explain(0, null, "", "Listening on 8080\n")).toMatch(
    /after it printed "Listening on 8080" on stdout\. Only protocol frames/,
  );
  expect(await explain(1, null, "Traceback\nModuleNotFoundError: No module named 'requests'\n")).toMatch(
    /Python module "requests" is not in the package/,
  );
  expect(await explain(1, null, "Error: Cannot find module 'left-pad'\n")).toMatch(
    /module "left-pad".*bundle it/,
  );
  expect(await explain(2, null, "sh: 1: cannot create /dev/stderr: No such device or address\n")).toMatch(
    />&2/,
  );
  expect(await explain(127, null, "sh: 1: jq: not found")).toMatch(/A program that it starts is not on/);
  expect(await explain(1, null, "OSError: [Errno 30] Read-only file system: '/tmp/cache'")).toMatch(
    /only with filesystem = "scratch".*--mount FOLDER:TARGET:rw/,
  );
  expect(await explain(1, null, "Error: getaddrinfo EAI_AGAIN api.acme.test")).toMatch(
    /reaches only the hosts that its binding allows: `backplane binding set BINDING --domains HOST`.*EAI_AGAIN api\.acme\.test$/,
  );
});

test("explains a program that env cannot find", async () => {
  const folder = createFolder({ plugin: "#!/usr/bin/env node\n" });
  const entry = {
    found: true,
    file: join(folder, "plugin"),
    args: [],
    label: "./plugin",
    in_package: true,
  } as const;
  const where = { ...environment, interpreters: { path: ["/nonexistent"], node: process.execPath } };
  const options = { exit: { code: 127, signal: null }, stderr: "env: 'node': No such file or directory\n" };
  expect(await explainEarlyExit({ ...entry, args: [] }, options, where)).toMatch(
    /asks env for "node", which is not on \/nonexistent.*entrypoint = \["node", FILE\]/,
  );
});
