/** sandbox-init alone: its side of the control channel, and that it never outlives the gateway. */
import { once } from "node:events";
import type { Duplex } from "node:stream";
import { expect, test } from "vitest";
import { ControlChannel } from "../../src/sandbox/control-channel.ts";
import { makePlan, SYSTEM, startStage } from "../support/stage.ts";

/** The exit code of sandbox-init when the gateway is gone or has sent an invalid plan. */
const INIT_FAILED = 126;
/** A file that is not a program. */
const DATA = ["show", "/etc/passwd", "/data"];

function openChannel(control: Duplex): ControlChannel {
  const channel = new ControlChannel(control);
  channel.sendStageCommands([...SYSTEM, ...DATA]);
  return channel;
}

test("exits when the gateway's end of the socket closes", async () => {
  const { child, control } = startStage();
  const channel = openChannel(control);
  channel.sendPlan(makePlan(["/bin/sleep", "5"]));
  expect(await channel.started).toEqual({ started: true });
  const exited = once(child, "exit");
  channel.close();
  expect(await exited).toEqual([INIT_FAILED, null]);
});

test("reports how the plugin exited or why it did not start", async () => {
  const ran = async (command: string[]) => {
    const { child, control } = startStage();
    const channel = openChannel(control);
    channel.sendPlan(makePlan(command, { env: { A: "b c" } }));
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
  expect(await ran(["/data"])).toMatchObject({ started: { started: false, errno: EACCES } });
});

test.each([
  ["a length of zero", "00000000"],
  ["a length over the limit", "ffffffff"],
  ["fewer bytes than its length", "0200000061"],
  ["no program", "04000000653d3100"],
  ["an unknown record", "020000007a00"],
  ["a limit without a value", "030000006c3700"],
  ["text that does not end with NUL", "020000006161"],
])("rejects a plan with %s", async (_, bytes) => {
  const { child, control } = startStage();
  const exited = once(child, "exit");
  openChannel(control);
  control.end(Buffer.from(bytes, "hex"));
  expect(await exited).toEqual([INIT_FAILED, null]);
});

test("does not let a variable add another one", async () => {
  const { control } = startStage();
  const channel = openChannel(control);
  expect(() => channel.sendPlan(makePlan(["/bin/true"], { env: { A: "1\0aB" } }))).toThrow("NUL character");
  channel.close();
});
