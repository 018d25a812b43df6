import { BackplaneError, type ProgressReport } from "@backplane/contract";
import type { Clock, Operation } from "@backplane/ports";
import { expect, test } from "vitest";
import { verifies } from "../../../../test/support/verifies.ts";
import type { RouteResponse } from "../../src/http/route.ts";
import { progressItems } from "../../src/sse/progress-stream.ts";

const CHECK: ProgressReport = { step: "check", message: "Checking" };
const count = (done: number): ProgressReport => ({
  step: "unpack",
  message: "Unpacking",
  done,
  unit: "bytes",
});

/** A clock that only moves by `advance`. */
function createManualClock() {
  let now = 0;
  const timers = new Set<{ due: number; run: () => void }>();
  const clock: Clock = {
    now: () => now,
    monotonic: () => now,
    after(ms, run) {
      const timer = { due: now + ms, run };
      timers.add(timer);
      return { stop: () => void timers.delete(timer) };
    },
  };
  /** Advances in steps of 50 ms and lets the waiting code run after each step. */
  const advance = async (ms: number) => {
    for (const until = now + ms; now < until; ) {
      now += 50;
      for (const timer of Array.from(timers)) {
        if (timer.due <= now && timers.delete(timer)) timer.run();
      }
      await new Promise((resolve) => setImmediate(resolve));
    }
  };
  return { clock, advance };
}

function startStream() {
  const { clock, advance } = createManualClock();
  const done = Promise.withResolvers<RouteResponse>();
  const stop = new AbortController();
  const items: { event: string; data: Record<string, unknown> }[] = [];
  let operation!: Operation;
  const reading = (async () => {
    const source = progressItems(clock, "req_1", stop.signal, (started) => {
      operation = started;
      return done.promise;
    });
    for await (const { event, data } of source) items.push({ event: event!, data: JSON.parse(data) });
  })();
  reading.catch(() => {});
  return { advance, done, stop, items, reading, operation: () => operation };
}

verifies("run.progress", "repeats the last report every second while nothing else happens", async () => {
  const stream = startStream();
  stream.operation().report(CHECK);
  await stream.advance(3_050);
  expect(stream.items.map(({ data }) => data)).toEqual([
    { operation_id: "req_1", ...CHECK, elapsed_ms: expect.any(Number) },
    { operation_id: "req_1", ...CHECK, elapsed_ms: expect.any(Number) },
    { operation_id: "req_1", ...CHECK, elapsed_ms: expect.any(Number) },
    { operation_id: "req_1", ...CHECK, elapsed_ms: expect.any(Number) },
  ]);
  const times = stream.items.map(({ data }) => data.elapsed_ms as number);
  expect(Math.max(...times.map((at, index) => at - (times[index - 1] ?? 0)))).toBeLessThan(2_000);
  stream.done.resolve({ status: 200, json: { a: 1 } });
  await stream.reading;
  expect(stream.items.at(-1)).toEqual({ event: "result", data: { a: 1 } });
});

test("reports that it is reading the request if the work reports nothing", async () => {
  const stream = startStream();
  await stream.advance(1_300);
  expect(stream.items).toMatchObject([{ event: "progress", data: { step: "read" } }]);
  stream.done.resolve({ status: 200, text: '{"b":2}', type: "application/json" });
  await stream.reading;
  expect(stream.items.at(-1)).toEqual({ event: "result", data: { b: 2 } });
});

test("sends every step, and only the latest of many counts within a step", async () => {
  const stream = startStream();
  for (let i = 1; i <= 500; i++) stream.operation().report(count(i));
  stream.operation().report(CHECK);
  await stream.advance(50);
  for (let i = 501; i <= 900; i++) stream.operation().report(count(i));
  await stream.advance(100);
  for (let i = 901; i <= 1_000; i++) stream.operation().report(count(i));
  await stream.advance(300);
  expect(stream.items.map(({ data }) => data.done ?? data.step)).toEqual([500, "check", 900, 1_000]);
  stream.done.resolve({ status: 200, json: null });
  await stream.reading;
});

test("fails with the error of the work, after its last report", async () => {
  const stream = startStream();
  stream.operation().report(CHECK);
  stream.done.reject(new BackplaneError("package.invalid"));
  await expect(stream.reading).rejects.toMatchObject({ code: "package.invalid" });
  expect(stream.items).toMatchObject([{ event: "progress", data: CHECK }]);
});

test("cancels the work when the stream ends, and waits until the work has ended", async () => {
  const stream = startStream();
  stream.stop.abort();
  expect(stream.operation().signal.aborted).toBe(true);
  let ended = false;
  void stream.reading
    .catch(() => {})
    .then(() => {
      ended = true;
    });
  await stream.advance(500);
  expect(ended).toBe(false);
  stream.done.reject(new BackplaneError("request.cancelled"));
  await expect(stream.reading).rejects.toMatchObject({ code: "request.cancelled" });
});
