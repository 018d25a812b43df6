import { expect, test } from "vitest";
import { Changes } from "../../src/kernel/changes.ts";

const turn_started = "turn.started" as const;

test("logs the error of a listener that throws or rejects, and still calls the others", async () => {
  const logged: unknown[] = [];
  const changes = new Changes({ error: (fields) => void logged.push(fields) });
  const called: string[] = [];
  changes.on(turn_started, () => {
    throw new Error("throws");
  });
  changes.on(turn_started, () => Promise.reject(new Error("rejects")));
  changes.on(turn_started, () => void called.push("third"));
  changes.emit(turn_started, {});
  await changes.emitAndWait(turn_started, {});
  expect(called).toEqual(["third", "third"]);
  expect(logged).toHaveLength(4);
  expect(logged[0]).toMatchObject({ change: turn_started });
});

test("resolves emitAndWait after the asynchronous listeners are done", async () => {
  const changes = new Changes({ error: () => {} });
  let done = false;
  changes.on("catalog.changed", async () => {
    await Promise.resolve();
    done = true;
  });
  await changes.emitAndWait("catalog.changed", { org_id: null });
  expect(done).toBe(true);
});

test("calls a listener that was added twice once per registration, and removes one at a time", () => {
  const changes = new Changes({ error: () => {} });
  let calls = 0;
  const listener = () => void calls++;
  const remove = changes.on(turn_started, listener);
  changes.on(turn_started, listener);
  changes.emit(turn_started, {});
  remove();
  changes.emit(turn_started, {});
  expect(calls).toBe(3);
});
