import { expect, test } from "vitest";
import { RunningCalls } from "../../src/calls/running-calls.ts";

function call() {
  const told: string[] = [];
  return {
    told,
    listener_proof: null,
    interrupt: (why: string) => void told.push(why),
    giveUp: () => void told.push("given up"),
  };
}

test("a call is told by its id, all are told at the end, and the end waits for the last of them", async () => {
  const running = new RunningCalls();
  await running.empty();
  const [one, two] = [call(), call()];
  running.add("inv_1", one);
  running.add("inv_2", two);
  expect([running.size, running.has("inv_1"), running.has("inv_3")]).toEqual([2, true, false]);
  expect([running.cancel("inv_1", "user"), running.cancel("inv_3", "user")]).toEqual([true, false]);
  running.interruptAll();
  running.giveUpAll();
  expect([one.told, two.told]).toEqual([
    ["user", "shutdown", "given up"],
    ["shutdown", "given up"],
  ]);
  let empty = false;
  const emptied = running.empty().then(() => {
    empty = true;
  });
  running.over("inv_1");
  await Promise.resolve();
  expect(empty).toBe(false);
  running.over("inv_2");
  await emptied;
  expect(running.size).toBe(0);
});
