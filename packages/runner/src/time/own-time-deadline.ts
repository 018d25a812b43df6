/** A deadline in the process's own time (see time-budget.ts), which is sampled at intervals until the deadline. */
import type { Deadline, Deadlines } from "./deadlines.ts";
import { readCpuTime, sampleTree } from "./sample-tree.ts";
import { TimeBudget, type TimeBudgetVerdict } from "./time-budget.ts";

const SAMPLES = 8;
const MIN_INTERVAL_MS = 5;
const MAX_INTERVAL_MS = 250;

/**
 * Calls `run` once, unless the returned function is called first. With `pid` null all wall time counts, divided by the
 * load of the machine.
 */
export function setOwnTimeDeadline(
  deadlines: Deadlines,
  pid: number | null,
  limit_ms: number,
  run: (verdict: TimeBudgetVerdict) => void,
): () => void {
  const interval = Math.min(Math.max(limit_ms / SAMPLES, MIN_INTERVAL_MS), MAX_INTERVAL_MS);
  const budget = new TimeBudget(limit_ms, interval, { at: deadlines.now(), cpu_ms: readCpuTime(pid) });
  let stopped = false;
  let next: Deadline | null = null;
  const takeSample = () => {
    const verdict = budget.add(sampleTree(pid, deadlines.now()));
    if (verdict === null) {
      next = deadlines.set(interval, takeSample);
      return;
    }
    // Output that has already arrived is read first, because the gateway itself may be late.
    setImmediate(() => setImmediate(() => stopped || run(verdict)));
  };
  next = deadlines.set(interval, takeSample);
  return () => {
    stopped = true;
    if (next !== null) deadlines.clear(next);
  };
}
