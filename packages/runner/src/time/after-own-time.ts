/** A deadline in the time that a process uses itself (budget.ts). It looks at the process a few times until then. */
import type { Deadline, Deadlines } from "./deadlines.ts";
import { cpuTimeOf, sampleTree } from "./sample-tree.ts";
import { TimeBudget, type Verdict } from "./time-budget.ts";

const SAMPLES = 8;
const SHORTEST_MS = 5;
const LONGEST_MS = 250;

/** Runs once, unless the returned function is called before. `pid` null: there is no process to look at, only the load. */
export function afterOwnTime(
  deadlines: Deadlines,
  pid: number | null,
  limit_ms: number,
  run: (verdict: Verdict) => void,
): () => void {
  const interval = Math.min(Math.max(limit_ms / SAMPLES, SHORTEST_MS), LONGEST_MS);
  const budget = new TimeBudget(limit_ms, interval, { at: deadlines.now(), cpu_ms: cpuTimeOf(pid) });
  let stopped = false;
  let next: Deadline | null = null;
  const look = () => {
    const verdict = budget.add(sampleTree(pid, deadlines.now()));
    if (verdict === null) {
      next = deadlines.set(interval, look);
      return;
    }
    // What the process has written by now is read first: we may be the ones who are late.
    setImmediate(() => setImmediate(() => stopped || run(verdict)));
  };
  next = deadlines.set(interval, look);
  return () => {
    stopped = true;
    if (next !== null) deadlines.clear(next);
  };
}
