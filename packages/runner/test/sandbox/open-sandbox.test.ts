import { spawn } from "node:child_process";
import { hash } from "node:crypto";
import { chmodSync, existsSync, mkdirSync, readdirSync, statSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { describe, expect, test } from "vitest";
import { eventually, isAlive } from "../../../../test/support/gateway/processes.ts";
import { verifies } from "../../../../test/support/verifies.ts";
import { openSandbox, readSandboxStatus } from "../../src/sandbox/open-sandbox.ts";
import { descendantsOf, waitingSandboxes } from "../support/process-tree.ts";
import {
  createEmptyFolder,
  finish,
  openTestSandbox,
  createPackageFolder,
  request,
  sandboxOptions,
  sh,
} from "../support/sandbox.ts";

function ourCgroups(): string[] {
  const prefix = `backplane-${process.pid}-`;
  return readdirSync("/sys/fs/cgroup").flatMap((controller) => {
    const folder = join("/sys/fs/cgroup", controller);
    try {
      return readdirSync(folder).filter((name) => name.startsWith(prefix));
    } catch {
      return [];
    }
  });
}

test("reports each part of the active boundary", async () => {
  const { status } = await openTestSandbox();
  expect(status).toMatchObject({ available: true });
  expect(status.checks.map(({ name }) => name)).toEqual([
    "system",
    "backend",
    "users",
    "cgroups",
    "trace",
    "self-test",
  ]);
  for (const { ok, fix } of status.checks) expect(ok || fix !== undefined).toBe(true);
});

test("is unavailable and reports the fix if sandbox-init is missing, and then refuses to launch", async () => {
  const sandbox = await openSandbox(sandboxOptions({ init: "/nonexistent" }));
  expect(sandbox.status).toMatchObject({
    available: false,
    fix: expect.stringContaining("Install Backplane again"),
  });
  const folder = await createPackageFolder();
  expect(() => sandbox.launch(request(folder))).toThrow(
    expect.objectContaining({ code: "sandbox.unavailable" }),
  );
  await sandbox.close();
});

test("is unavailable with a program that confines nothing: the self-test checks the process", async () => {
  const folder = createEmptyFolder();
  const bytes = Buffer.from("#!/bin/sh\nexit 0\n");
  const name = `linux-${process.arch}`;
  const programs = { [name]: { sha256: hash("sha256", bytes, "hex") } };
  writeFileSync(join(folder, name), bytes, { mode: 0o755 });
  writeFileSync(join(folder, "manifest.json"), JSON.stringify({ programs }));
  const { available } = await readSandboxStatus(sandboxOptions({ init: folder, bwrap: [] }));
  expect(available).toBe(false);
});

test("gives plugins umask 022 under a gateway with umask 077, and lets them read the sandbox's own files", async () => {
  const previous_umask = process.umask(0o077);
  try {
    const cache_dir = createEmptyFolder();
    const sandbox = await openTestSandbox({ cache_dir });
    const ran = await sh(sandbox, "umask; cat /etc/passwd");
    expect(ran).toMatchObject({ out: expect.stringMatching(/^0022\nplugin:/), exitCause: { code: 0 } });
    const entries = readdirSync(cache_dir, { recursive: true, encoding: "utf8" });
    for (const name of entries) {
      const info = statSync(join(cache_dir, name));
      const mode = (info.mode & 0o777).toString(8);
      expect([name, mode]).toEqual([name, expect.toBeOneOf(info.isDirectory() ? ["700"] : ["444", "555"])]);
    }
    expect(entries.some((name) => name.endsWith("/sandbox-init"))).toBe(true);
  } finally {
    process.umask(previous_umask);
  }
});

test("passes on the streams, exit code and signal of the plugin", async () => {
  const sandbox = await openTestSandbox();
  const ran = await sh(sandbox, "echo out; echo err >&2; exit 7");
  expect(ran).toMatchObject({
    out: "out\n",
    err: "err\n",
    exitCause: { cause: "exit", code: 7, signal: null },
  });
  const crash = await sh(sandbox, "kill -SEGV $$");
  expect(crash.exitCause).toMatchObject({ cause: "signal", code: null, signal: "SIGSEGV" });
});

test("passes on all output of a plugin that exits before its start is known", async () => {
  const sandbox = await openTestSandbox();
  for (let i = 0; i < 10; i++) {
    const launching = sh(sandbox, "echo out; echo err >&2");
    // The gateway is busy meanwhile, so it sees start, output and exit at the same time.
    await new Promise((resolve) => setTimeout(resolve, 2));
    for (const until = Date.now() + 100; Date.now() < until; );
    expect(await launching).toMatchObject({ out: "out\n", err: "err\n" });
  }
});

test("reports a program that cannot be started as the plugin's failure", async () => {
  const sandbox = await openTestSandbox();
  const program = { kind: "system" as const, file: "/usr/bin/no-such-program", args: [] };
  await expect(sandbox.launch(request(await createPackageFolder(), { program }))).rejects.toMatchObject({
    code: "launch_failed",
    details: { errno: 2 },
  });
});

test("replaces a prepared process that was killed, and stops the new one on close", async () => {
  const sandbox = await openSandbox(sandboxOptions());
  expect((await sh(sandbox, "echo one")).out).toBe("one\n");
  const killed = waitingSandboxes();
  for (const pid of killed) process.kill(pid, "SIGKILL");
  await eventually(() => !killed.some(isAlive), 5_000, "the prepared process is dead");
  expect((await sh(sandbox, "echo two")).out).toBe("two\n");
  const replacements = waitingSandboxes();
  expect([killed.length, replacements.length]).toEqual([1, 1]);
  await sandbox.close();
  expect(replacements.filter(isAlive)).toEqual([]);
});

test("keeps the output of a program that exits before its reader is attached", async () => {
  const sandbox = await openTestSandbox();
  const program = { kind: "system" as const, file: "/bin/sh", args: ["-c", "echo out; echo err >&2"] };
  const confined = await sandbox.launch(request(await createPackageFolder(), { program }));
  const { child } = confined;
  await eventually(() => child.exitCode !== null, 60_000, "the program has exited");
  expect(await finish(confined)).toMatchObject({ out: "out\n", err: "err\n", exitCause: { code: 0 } });
});

test("creates and removes scratch folders while the process runs, whatever they contain", async () => {
  const sandbox = await openTestSandbox();
  const program = { kind: "system" as const, file: "/bin/sh", args: [] };
  const change = { program, grant: { filesystem: "scratch" as const } };
  const confined = await sandbox.launch(request(await createPackageFolder(), change));
  expect(await confined.makeScratch("inv_1")).toBe(true);
  expect(await confined.makeScratch("inv_1")).toBe(false);
  await expect(confined.makeScratch("../x")).rejects.toThrow("not a valid name");
  const { child } = confined;
  const output = new Promise<string>((resolve) => child.stdout.once("data", (data) => resolve(String(data))));
  const make_files = "cd /sandbox/scratch/inv_1 && mkdir -p a/b shut && touch a/b/c shut/x && chmod 0 shut";
  child.stdin.write(`${make_files} && ln -s / root && mkfifo pipe && stat -c "%a %n" $PWD\n`);
  expect(await output).toContain("700 /sandbox/scratch/inv_1\n");
  expect(await confined.removeScratch("inv_1")).toBe(true);
  expect(await confined.removeScratch("inv_2")).toBe(false);
  child.stdin.write("ls -A /sandbox/scratch; exit\n");
  const ran = await finish(confined);
  expect(ran).toMatchObject({ out: "", exitCause: { code: 0 } });
});

test("hides assets if the grant allows no files", async () => {
  const sandbox = await openTestSandbox();
  const folder = await createPackageFolder();
  mkdirSync(join(folder, "assets"));
  writeFileSync(join(folder, "assets/logo"), "bytes");
  const look = "cat assets/logo; ls -A assets; touch assets/x assets/logo 2>/dev/null || echo read-only";
  const outputFor = async (filesystem: "none" | "assets_ro") =>
    (await sh(sandbox, look, { folder, grant: { filesystem } })).out;
  expect(await outputFor("assets_ro")).toBe("byteslogo\nread-only\n");
  expect(await outputFor("none")).toBe("read-only\n");
});

test("mounts folders of the operator at their targets, writable only if the grant allows it", async () => {
  const sandbox = await openTestSandbox();
  // The outer folder is readable by the gateway's user only, like a home folder; the mounted folder is open to all.
  const closed = createEmptyFolder();
  const shared = join(closed, "shared");
  mkdirSync(shared);
  chmodSync(shared, 0o777);
  writeFileSync(join(shared, "file"), "shared");
  const mounts = (writable: boolean) => ({ mounts: [{ source: shared, target: "/srv/shared", writable }] });
  const script = "cat /srv/shared/file; touch /srv/shared/new 2>/dev/null && echo written; true";
  const read_only = await sh(sandbox, script, { grant: mounts(false) });
  expect(read_only.out).toBe("shared");
  expect(existsSync(join(shared, "new"))).toBe(false);
  expect((await sh(sandbox, script, { grant: mounts(true) })).out).toBe("sharedwritten\n");
  expect(existsSync(join(shared, "new"))).toBe(true);
});

test("reports a missing mount as an error of the binding with its fix", async () => {
  const sandbox = await openTestSandbox();
  const source = join(createEmptyFolder(), "gone");
  const grant = { mounts: [{ source, target: "/srv/gone", writable: false }] };
  await expect(sh(sandbox, "true", { grant })).rejects.toMatchObject({
    code: "launch_failed",
    message: `The binding cannot mount ${JSON.stringify(source)}: the folder does not exist on the gateway's machine.`,
    fix: expect.stringContaining("backplane binding set ID --mount"),
  });
  // The slot of the failed start is free again, and the next start works as usual.
  expect((await sh(sandbox, "echo on", {})).out).toBe("on\n");
});

describe("limits", () => {
  const root = process.getuid!() === 0;
  /** Without cgroups the system refuses memory and processes, and the plugin exits with its own error. */
  const FAILED = { cause: "exit", code: 1 };

  verifies(
    "sandbox.limits",
    "reports memory, processes, disk, CPU time and wall time as exit causes, and limits open files",
    async () => {
      const MIB = 1024 * 1024;
      const limits = {
        memory_bytes: 64 * MIB,
        processes: 24,
        cpu_seconds: 1,
        open_files: 32,
        scratch_bytes: 4 * MIB,
        scratch_files: 64,
      };
      const sandbox = await openTestSandbox({ limits });
      const bystander = await sandbox.launch(
        request(await createPackageFolder(), { program: { kind: "system", file: "/bin/cat", args: [] } }),
      );
      const python = (code: string) => ({
        program: { kind: "system" as const, file: "/usr/bin/python3", args: ["-c", code] },
        grant: { filesystem: "scratch" as const },
      });
      const runPython = async (code: string) =>
        await finish(await sandbox.launch(request(await createPackageFolder(), python(code))));

      expect(
        (await runPython("x = bytearray(8 << 30)\nfor i in range(0, len(x), 4096): x[i] = 1")).exitCause,
      ).toMatchObject(root ? { cause: "oom", message: "It exceeded its memory limit of 64 MiB." } : FAILED);
      const fork_bomb = await runPython(
        "import os\nfor i in range(1000):\n  if os.fork() == 0:\n    import time; time.sleep(60)",
      );
      expect(fork_bomb.exitCause).toMatchObject(root ? { cause: "pids", code: 1 } : FAILED);
      const disk = await runPython(
        "f = open('/sandbox/scratch/a', 'wb')\ng = open('/sandbox/scratch/b', 'wb')\nfor i in range(9999):\n  f.write(b'x' * 65536); f.flush(); g.write(b'x' * 65536); g.flush()",
      );
      expect(disk.exitCause.cause).toBe("disk");
      const inodes = await runPython("for i in range(9999): open(f'/sandbox/scratch/{i}', 'w').close()");
      expect(inodes.exitCause.cause).toBe("disk");
      // The first three descriptors are the standard streams, so the last number is one below the limit.
      const files = await runPython(
        "n = 0\nfs = []\ntry:\n  while True: fs.append(open('/dev/null')); n = fs[-1].fileno()\nexcept OSError as error:\n  print(n, error.strerror)",
      );
      expect(files.out).toBe("31 Too many open files\n");
      expect((await runPython("while True: pass")).exitCause).toMatchObject({ cause: "cpu" });
      const slow = await sandbox.launch(
        request(await createPackageFolder(), python("import time; time.sleep(60)")),
      );
      slow.kill("timeout");
      expect((await finish(slow)).exitCause).toMatchObject({ cause: "timeout" });

      // Other processes are not affected.
      const echoed = new Promise((resolve) => bystander.child.stdout.once("data", resolve));
      bystander.child.stdin.write("still here\n");
      expect(String(await echoed)).toBe("still here\n");
      bystander.kill();
      await bystander.exitCause;
    },
  );

  test("applies the operator's limits for one package only to that package", async () => {
    const MIB = 1024 * 1024;
    const sandbox = await openTestSandbox({
      limits: { memory_bytes: 64 * MIB, open_files: 32 },
      package_limits: { "acme/large": { memory_bytes: 256 * MIB } },
    });
    const code =
      "import resource\nx = bytearray(100 << 20)\nprint(len(x) >> 20, resource.getrlimit(resource.RLIMIT_NOFILE)[0])";
    const runAsPackage = async (package_id: string) =>
      await finish(
        await sandbox.launch({
          ...request(await createPackageFolder(), {
            program: { kind: "system", file: "/usr/bin/python3", args: ["-c", code] },
          }),
          package_id,
        }),
      );
    // A slot that was used with the higher limit is not given to another package.
    for (let round = 0; round < 2; round++) {
      expect((await runAsPackage("acme/large")).out).toBe("100 32\n");
      const small = await runAsPackage("acme/small");
      if (root)
        expect(small.exitCause).toMatchObject({
          cause: "oom",
          message: "It exceeded its memory limit of 64 MiB.",
          fix: 'If it needs more, raise memory_bytes in [sandbox.package_limits."acme/small"] of backplane.toml and restart the gateway.',
        });
    }
  });
});

describe("leaves nothing behind", () => {
  const STUBBORN =
    "trap '' TERM HUP INT; (trap '' TERM HUP; setsid sh -c 'sleep 300' & setsid setsid sh -c 'sleep 301 & sleep 302' &) ; echo up; sleep 303";

  test("after a kill, with daemons that left their session", async () => {
    const sandbox = await openTestSandbox();
    const program = { kind: "system" as const, file: "/bin/sh", args: ["-c", STUBBORN] };
    const confined = await sandbox.launch(request(await createPackageFolder(), { program }));
    await new Promise((resolve) => confined.child.stdout.once("data", resolve));
    await eventually(() => descendantsOf(confined.pid).length >= 6, 10_000, "the daemons are up");
    const pids = [confined.pid, ...descendantsOf(confined.pid)];
    confined.kill();
    await confined.exitCause;
    expect(pids.filter(isAlive)).toEqual([]);
  });

  test("after the plugin's own exit, with daemons", async () => {
    const sandbox = await openTestSandbox();
    const program = { kind: "system" as const, file: "/bin/sh", args: ["-c", "setsid sleep 300 & read x"] };
    const confined = await sandbox.launch(request(await createPackageFolder(), { program }));
    await eventually(() => descendantsOf(confined.pid).length >= 3, 10_000, "the daemon is up");
    const pids = [confined.pid, ...descendantsOf(confined.pid)];
    await finish(confined);
    expect(pids.filter(isAlive)).toEqual([]);
  });

  test("after only the outer process was killed", async () => {
    const sandbox = await openTestSandbox();
    const program = { kind: "system" as const, file: "/bin/sleep", args: ["300"] };
    const confined = await sandbox.launch(request(await createPackageFolder(), { program }));
    const inside = descendantsOf(confined.pid);
    expect(inside.length).toBeGreaterThanOrEqual(2);
    process.kill(confined.pid, "SIGKILL");
    await confined.exitCause;
    await eventually(() => !inside.some(isAlive), 5_000, "the sandbox is gone");
  });

  verifies("sandbox.kill", "after the gateway was killed: no process and no cgroup", async () => {
    const host = spawn(
      process.execPath,
      [
        "--conditions=backplane-source",
        fileURLToPath(new URL("../fixtures/doomed-sandbox.ts", import.meta.url)),
      ],
      { stdio: ["ignore", "pipe", "inherit"] },
    );
    const text = await new Promise<string>((resolve) => {
      host.stdout.once("data", (data) => resolve(String(data)));
    });
    const { pid, cgroups } = JSON.parse(text) as { pid: number; cgroups: string[] };
    const pids = [pid, ...descendantsOf(pid)];
    expect(pids.length).toBeGreaterThanOrEqual(3);
    host.kill("SIGKILL");
    await eventually(() => !pids.some(isAlive), 5_000, "every process is gone");
    await eventually(() => !cgroups.some((folder) => existsSync(folder)), 5_000, "every cgroup is gone");
  });

  test("after the sandbox was closed: no cgroup of this gateway", async () => {
    const sandbox = await openSandbox(sandboxOptions());
    await sh(sandbox, "true");
    await sandbox.close();
    expect(ourCgroups()).toEqual([]);
  });
});
