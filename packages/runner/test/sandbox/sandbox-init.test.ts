/**
 * sandbox-init alone: its side of the control channel, and that it never outlives the gateway. It runs in a PID
 * namespace, because as PID 1 it kills all other processes, which must never be those of this machine.
 */
import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import type { Duplex } from "node:stream";
import { expect, onTestFinished, test } from "vitest";
import { PrivateCopies } from "../../src/programs/private-copies.ts";
import { ControlChannel } from "../../src/sandbox/control-channel.ts";
import { findOrBuildInit } from "../../src/sandbox/init-program.ts";
import type { SandboxPlan } from "../../src/sandbox/plan.ts";
import { filteredArch, systemCallFilter } from "../../src/sandbox/seccomp/filter.ts";
import { treeOf } from "../support/process-tree.ts";
import { CACHE } from "../support/sandbox.ts";

const NOT_STARTED = 126;

async function start(): Promise<{ child: ChildProcess; control: Duplex }> {
  const { file } = await findOrBuildInit(CACHE);
  const copies = new PrivateCopies(CACHE);
  onTestFinished(() => copies.close());
  const filter = copies.openUnnamed(systemCallFilter(filteredArch(process.arch)!));
  const stdio = ["ignore", "ignore", "inherit", "pipe", filter, "pipe", "pipe", "pipe"] as const;
  const namespace = [
    "--unshare-pid",
    "--as-pid-1",
    "--die-with-parent",
    "--dev-bind",
    "/",
    "/",
    "--proc",
    "/proc",
  ];
  const child = spawn("/usr/bin/bwrap", [...namespace, "--", file, "init"], { env: {}, stdio: [...stdio] });
  for (const stream of child.stdio) stream?.on("error", () => {});
  onTestFinished(() => {
    // The inner process is killed first, because it waits forever if the outer process exits before starting it.
    for (const pid of treeOf(child.pid!)) process.kill(pid, "SIGKILL");
    child.kill("SIGKILL");
  });
  return { child, control: child.stdio[3] as unknown as Duplex };
}

function planOf(command: string[], change: Partial<SandboxPlan> = {}): SandboxPlan {
  return {
    uid: null,
    mounts: [],
    links: [],
    hidden: [],
    scratch: null,
    kept: [],
    listeners: [],
    env: {},
    cwd: "/",
    command,
    limits: [],
    ...change,
  };
}

test("exits when the gateway's end of the socket closes", async () => {
  const { child, control } = await start();
  const channel = new ControlChannel(control);
  channel.sendPlan(planOf(["/bin/sleep", "5"]));
  expect(await channel.started).toEqual({ started: true });
  const exited = once(child, "exit");
  channel.close();
  expect(await exited).toEqual([NOT_STARTED, null]);
});

test("reports how the plugin exited or why it did not start", async () => {
  const ran = async (command: string[]) => {
    const { child, control } = await start();
    const channel = new ControlChannel(control);
    channel.sendPlan(planOf(command, { env: { A: "b c" } }));
    const started = await channel.started;
    if (child.exitCode === null) await once(child, "exit");
    return { started, ended: channel.ended, code: child.exitCode };
  };
  expect(await ran(["/bin/sh", "-c", 'test "$A" = "b c" && exit 9'])).toMatchObject({
    started: { started: true },
    ended: { code: 9, signal: 0, scratch_full: false },
    code: 9,
  });
  expect(await ran(["/bin/sh", "-c", "kill -9 $$"])).toMatchObject({
    ended: { code: null, signal: 9 },
    code: 137,
  });
  const [ENOENT, EACCES] = [2, 13];
  expect(await ran(["/nonexistent"])).toMatchObject({ started: { started: false, errno: ENOENT } });
  expect(await ran(["/etc/passwd"])).toMatchObject({ started: { started: false, errno: EACCES } });
});

test.each([
  ["nothing at all", "00000000"],
  ["a plan over the size limit", "ffffffff"],
  ["no terminator", "0200000061"],
  ["no program", "04000000653d3100"],
  ["an unknown record", "020000007a00"],
  ["a limit without a value", "030000006c3700"],
  ["text that does not end with NUL", "020000006161"],
])("rejects a plan with %s", async (_, bytes) => {
  const { child, control } = await start();
  const exited = once(child, "exit");
  control.end(Buffer.from(bytes, "hex"));
  expect(await exited).toEqual([NOT_STARTED, null]);
});

test("does not let a variable add another one", async () => {
  const { control } = await start();
  const channel = new ControlChannel(control);
  expect(() => channel.sendPlan(planOf(["/bin/true"], { env: { A: "1\0aB" } }))).toThrow("NUL character");
  channel.close();
});
