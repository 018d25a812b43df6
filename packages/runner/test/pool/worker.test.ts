import { expect, test } from "vitest";
import type { EgressSession } from "../../src/egress/create-egress.ts";
import type { Worker } from "../../src/pool/worker.ts";
import { createActiveCall, createIdleWorker } from "../support/idle-worker.ts";

test("adds and removes calls in any order and reports when the last one has ended", () => {
  const worker = createIdleWorker();
  const [a, b, c, d] = [
    createActiveCall("a"),
    createActiveCall("b"),
    createActiveCall("c"),
    createActiveCall("d"),
  ];
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
  expect(createIdleWorker().idle).toBe(true);
  expect(createIdleWorker({ pooled: false }).idle).toBe(false);
  for (const state of ["launching", "stopping", "gone"] as const)
    expect(createIdleWorker({ state }).idle).toBe(false);
  const waited = createIdleWorker();
  waited.waiting++;
  expect([waited.unused, waited.idle]).toEqual([false, false]);
  const busy = createIdleWorker();
  const call = createActiveCall("a");
  busy.startCall(call);
  expect([busy.unused, busy.idle]).toEqual([false, false]);
  busy.endCall(call);
  expect([busy.unused, busy.idle]).toEqual([true, true]);
});

test("counts a violation once, for the specified call or else for one in flight", () => {
  const worker = createIdleWorker();
  const calls = ["a", "b"].map(createActiveCall);
  for (const call of calls) worker.startCall(call);
  worker.recordViolation("b");
  worker.recordViolation("stranger");
  worker.recordViolation(undefined);
  expect(calls.map(({ violations }) => violations)).toEqual([1, 1]);
});

/** Attaches an egress session to the worker and returns a list of the values that its `hold` receives. */
function watchHold(worker: Worker): boolean[] {
  const held: boolean[] = [];
  const session: Pick<EgressSession, "hold" | "resetCounts"> = {
    hold: (now) => held.push(now),
    resetCounts: () => {},
  };
  worker.attachEgress(session as EgressSession);
  return held;
}

test("holds its egress once its last call has answered, and records refusals until the call ends", () => {
  const worker = createIdleWorker();
  const held = watchHold(worker);
  const [a, b] = [createActiveCall("a"), createActiveCall("b")];
  for (const call of [a, b]) worker.startCall(call);
  worker.recordAnswer(a);
  expect(held.at(-1)).toBe(false);
  worker.recordAnswer(b);
  expect(held.at(-1)).toBe(true);
  worker.refusals.add({ host: "10.0.0.5", port: 80, reason: "direct.connection", at: 0 });
  expect([a.refusals, b.refusals]).toEqual([["10.0.0.5 true"], ["10.0.0.5 true"]]);
  const c = createActiveCall("c");
  worker.startCall(c);
  expect(held.at(-1)).toBe(false);
  // The earlier calls no longer count, whenever they end.
  worker.endCall(a);
  worker.recordAnswer(c);
  expect(held.at(-1)).toBe(true);
  for (const call of [b, c]) worker.endCall(call);
  expect([held.at(-1), worker.unused]).toEqual([true, true]);
});

test("keeps the egress of a resident server open", () => {
  const worker = createIdleWorker({ resident: true });
  const held = watchHold(worker);
  const call = createActiveCall("a");
  worker.startCall(call);
  worker.recordAnswer(call);
  worker.endCall(call);
  expect(new Set(held)).toEqual(new Set([false]));
});
