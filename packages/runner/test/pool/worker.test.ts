import { expect, test } from "vitest";
import { standingWorker, tenant } from "../support/idle-worker.ts";

test("calls come and go in any order, each once, and the last to go is told so", () => {
  const worker = standingWorker();
  const [a, b, c, d] = [tenant("a"), tenant("b"), tenant("c"), tenant("d")];
  for (const call of [a, b, c, d]) worker.enter(call);
  expect(worker.exit(b)).toBe(false);
  expect(worker.exit(b)).toBe(false);
  expect(worker.calls.map(({ id }) => id)).toEqual(["a", "d", "c"]);
  expect(worker.calls.map(({ place }) => place)).toEqual([0, 1, 2]);
  expect([worker.exit(c), worker.exit(a), worker.exit(d), worker.exit(d)]).toEqual([
    false,
    false,
    true,
    false,
  ]);
  expect(worker.calls).toEqual([]);
});

test("only a pooled one that is ready and unused is idle", () => {
  expect(standingWorker().idle).toBe(true);
  expect(standingWorker({ pooled: false }).idle).toBe(false);
  for (const state of ["launching", "stopping", "gone"] as const)
    expect(standingWorker({ state }).idle).toBe(false);
  const waited = standingWorker();
  waited.waiting++;
  expect([waited.unused, waited.idle]).toEqual([false, false]);
  const busy = standingWorker();
  const call = tenant("a");
  busy.enter(call);
  expect([busy.unused, busy.idle]).toEqual([false, false]);
  busy.exit(call);
  expect([busy.unused, busy.idle]).toEqual([true, true]);
});

test("counts a violation once, for the call that it names or else for one of those in flight", () => {
  const worker = standingWorker();
  const calls = ["a", "b"].map(tenant);
  for (const call of calls) worker.enter(call);
  worker.violated("b");
  worker.violated("stranger");
  worker.violated(undefined);
  expect(calls.map(({ violations }) => violations)).toEqual([1, 1]);
});
