import { type ChildProcessWithoutNullStreams, spawn } from "node:child_process";
import { once } from "node:events";
import { setImmediate } from "node:timers/promises";
import { expect, test } from "vitest";
import { discardOutput, keepOutput } from "../../src/programs/keep-output.ts";

async function createExitedChild(prepare: (child: ChildProcessWithoutNullStreams) => void) {
  const child = spawn("/bin/sh", ["-c", "echo early; exit 3"], { stdio: "pipe" });
  prepare(child);
  await once(child, "exit");
  // Node resumes the streams and reads what they hold.
  for (let turn = 0; turn < 20; turn++) await setImmediate();
  return child;
}

async function read(child: ChildProcessWithoutNullStreams): Promise<string> {
  let text = "";
  child.stdout.on("data", (chunk) => {
    text += chunk;
  });
  if (!child.stdout.readableEnded) await once(child.stdout, "end");
  return text;
}

test("keeps the output of an exited child for a reader that is attached later", async () => {
  expect(await read(await createExitedChild(({ stdout }) => keepOutput(stdout)))).toBe("early\n");
  // Control: without keepOutput, Node discards the output.
  expect(await read(await createExitedChild(() => {}))).toBe("");
});

test("keeps the output for a reader that iterates over it", async () => {
  const child = await createExitedChild(({ stdout }) => keepOutput(stdout));
  expect(String(Buffer.concat(await child.stdout.toArray()))).toBe("early\n");
});

test("closes the child once the output is discarded", async () => {
  const child = await createExitedChild(({ stdout }) => keepOutput(stdout));
  discardOutput(child.stdout);
  expect(await once(child, "close")).toEqual([3, null]);
});
