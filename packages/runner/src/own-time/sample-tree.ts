/** What a process and its children are doing right now, as /proc shows it. */
import { readdirSync, readFileSync } from "node:fs";
import { availableParallelism, loadavg } from "node:os";
import { parseStat } from "../process-tree/process-table.ts";
import { childrenOf } from "../sandbox/children-of.ts";
import type { TimeSample } from "./budget.ts";

/** The kernel counts in hundredths of a second for /proc, whatever its own clock does. */
const MS_PER_TICK = 10;
const MAX_PROCESSES = 32;
const MAX_THREADS = 64;
/** Runnable, waiting for a disk, stopped, stopped by a debugger. */
const HELD_UP = new Set(["R", "D", "T", "t"]);

/** Threads of the machine that can run, now or over the last minute, for each processor; at least 1. */
export function loadPerProcessor(): number {
  return Math.max(1, Math.max(runnableNow(), loadavg()[0] ?? 0) / availableParallelism());
}

/** The average of a minute comes too late for a load that has just begun. */
function runnableNow(): number {
  try {
    return Number(/ (\d+)\/\d+ /.exec(readFileSync("/proc/loadavg", "utf8"))?.[1] ?? 0);
  } catch {
    return 0;
  }
}

export function sampleTree(pid: number | null, at: number): TimeSample {
  const load = loadPerProcessor();
  const unknown: TimeSample = { at, cpu_ms: null, held_up: false, load };
  if (pid === null) return unknown;
  let ticks = 0;
  let held_up = false;
  let threads = 0;
  const left = [pid];
  for (let seen = 0; left.length > 0 && seen < MAX_PROCESSES; seen++) {
    const one = left.pop()!;
    const row = readStat(`/proc/${one}/stat`);
    if (row === null) continue;
    ticks += row.cpu_ticks + row.reaped_ticks;
    left.push(...childrenOf(one));
    if (held_up || threads >= MAX_THREADS) continue;
    for (const thread of threadsOf(one)) {
      threads++;
      held_up ||= HELD_UP.has(readStat(`/proc/${one}/task/${thread}/stat`)?.state ?? "");
    }
  }
  return threads === 0 ? unknown : { at, cpu_ms: ticks * MS_PER_TICK, held_up, load };
}

function threadsOf(pid: number): string[] {
  try {
    return readdirSync(`/proc/${pid}/task`);
  } catch {
    return [];
  }
}

function readStat(file: string): ReturnType<typeof parseStat> {
  try {
    return parseStat(readFileSync(file, "utf8"));
  } catch {
    return null;
  }
}
