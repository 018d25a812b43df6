import { expect, test } from "vitest";
import { activeCall, idleWorker } from "../support/idle-worker.ts";

test("adds and removes calls in any order and reports when the last one has ended", () => {
  const worker = idleWorker();
  const [a, b, c, d] = [activeCall("a"), activeCall("b"), activeCall("c"), activeCall("d")];
  for (const call of [a, b, c, d]) worker.startCall(call);
  expect(worker.endCall(b)).toBe(false);
  expect(worker.endCall(b)).toBe(false);
  expect(worker.calls.map(({ id }) => id)).toEqual(["a", "d", "c"]);
  expect(worker.calls.map(({ index }) => index)).toEqual([0, 1, 2]);
  expect([worker.endCall(c), worker.endCall(a), worker.endCall(d), worker.endCall(d)]).toEqual([
    false,
    false,
    true,
    false,
  ]);
  expect(worker.calls).toEqual([]);
});

test("is idle only if it is pooled, ready and unused", () => {
  expect(idleWorker().idle).toBe(true);
  expect(idleWorker({ pooled: false }).idle).toBe(false);
  for (const state of ["launching", "stopping", "gone"] as const)
    expect(idleWorker({ state }).idle).toBe(false);
  const waited = idleWorker();
  waited.waiting++;
  expect([waited.unused, waited.idle]).toEqual([false, false]);
  const busy = idleWorker();
  const call = activeCall("a");
  busy.startCall(call);
  expect([busy.unused, busy.idle]).toEqual([false, false]);
  busy.endCall(call);
  expect([busy.unused, busy.idle]).toEqual([true, true]);
});

test("counts a violation once, for the named call or else for one in flight", () => {
  const worker = idleWorker();
  const calls = ["a", "b"].map(activeCall);
  for (const call of calls) worker.startCall(call);
  worker.recordViolation("b");
  worker.recordViolation("stranger");
  worker.recordViolation(undefined);
  expect(calls.map(({ violations }) => violations)).toEqual([1, 1]);
});
