/**
 * Measures the longest time, in ms, for which the code under test blocked the event loop. It counts the CPU time of
 * this thread between two ticks of a timer, because on a busy machine the wall clock includes the time of other
 * programs. Garbage collections do not count, because the heap of a test process still holds objects of earlier test
 * files.
 */
import { PerformanceObserver } from "node:perf_hooks";
import { setImmediate } from "node:timers/promises";

const TICK_MS = 1;

interface Gap {
  from: number;
  to: number;
  busy: number;
}

/** Starts measuring. The returned function stops it and returns the result. */
export function measureLag(): () => Promise<number> {
  const gaps: Gap[] = [];
  const collections: { from: number; to: number }[] = [];
  const observer = new PerformanceObserver((list) => {
    for (const { startTime, duration } of list.getEntries())
      collections.push({ from: startTime, to: startTime + duration });
  });
  observer.observe({ entryTypes: ["gc"] });
  let last = { at: performance.now(), busy: readBusyMs() };
  const tick = (): void => {
    const now = { at: performance.now(), busy: readBusyMs() };
    gaps.push({ from: last.at, to: now.at, busy: Math.min(now.busy - last.busy, now.at - last.at) });
    last = now;
  };
  const timer = setInterval(tick, TICK_MS);
  return async () => {
    tick();
    clearInterval(timer);
    // The observer is notified of a collection in a later turn of the event loop.
    for (let turn = 0; turn < 3; turn++) await setImmediate();
    observer.disconnect();
    const measureCollections = ({ from, to }: Gap): number =>
      collections.reduce(
        (sum, collection) => sum + Math.max(0, Math.min(to, collection.to) - Math.max(from, collection.from)),
        0,
      );
    // A collection is measured by the wall clock, so its share of the CPU time is estimated by its share of the gap.
    const measureComputation = (gap: Gap): number =>
      gap.busy * (1 - measureCollections(gap) / (gap.to - gap.from));
    return gaps.reduce(
      (longest, gap) => (gap.to > gap.from ? Math.max(longest, measureComputation(gap)) : longest),
      0,
    );
  };
}

function readBusyMs(): number {
  const { user, system } = process.threadCpuUsage();
  return (user + system) / 1_000;
}
