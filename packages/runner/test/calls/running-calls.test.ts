import { expect, test } from "vitest";
import { RunningCalls } from "../../src/calls/running-calls.ts";

function createCall() {
  const interrupts: string[] = [];
  return {
    interrupts,
    listener_proof: null,
    interrupt: (reason: string) => void interrupts.push(reason),
    stopNow: () => void interrupts.push("stopped now"),
  };
}

test("interrupts calls by id or all together, and waits for the last one to finish", async () => {
  const running = new RunningCalls();
  await running.whenEmpty();
  const [first, second] = [createCall(), createCall()];
  running.add("inv_1", first);
  running.add("inv_2", second);
  expect([running.size, running.has("inv_1"), running.has("inv_3")]).toEqual([2, true, false]);
  expect([running.cancel("inv_1", "user"), running.cancel("inv_3", "user")]).toEqual([true, false]);
  running.interruptAll();
  running.stopAllNow();
  expect([first.interrupts, second.interrupts]).toEqual([
    ["user", "shutdown", "stopped now"],
    ["shutdown", "stopped now"],
  ]);
  let empty = false;
  const emptied = running.whenEmpty().then(() => {
    empty = true;
  });
  running.remove("inv_1");
  await Promise.resolve();
  expect(empty).toBe(false);
  running.remove("inv_2");
  await emptied;
  expect(running.size).toBe(0);
});
