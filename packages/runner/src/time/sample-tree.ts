/** Samples the state and processor time of a process and its descendants from /proc. */
import { readdirSync, readFileSync } from "node:fs";
import { availableParallelism, loadavg } from "node:os";
import { childrenOf } from "../procfs/children-of.ts";
import { type ProcessRow, parseStat, readProcess } from "../procfs/process-table.ts";
import type { TimeSample } from "./time-budget.ts";

/** /proc uses hundredths of a second, whatever the kernel's own clock rate is. */
const MS_PER_TICK = 10;
const MAX_PROCESSES = 32;
const MAX_THREADS = 64;
/** Runnable, waiting for a disk, stopped, stopped by a debugger. */
const HELD_UP = new Set(["R", "D", "T", "t"]);

/** Runnable threads of the machine per processor, now or over the last minute; at least 1. */
export function loadPerProcessor(): number {
  return Math.max(1, Math.max(runnableNow(), loadavg()[0] ?? 0) / availableParallelism());
}

/** The average over a minute is too slow for a load that has just started. */
function runnableNow(): number {
  try {
    return Number(/ (\d+)\/\d+ /.exec(readFileSync("/proc/loadavg", "utf8"))?.[1] ?? 0);
  } catch {
    return 0;
  }
}

/** Processor time of a process and its descendants; null if it is unknown. */
export function readCpuTime(pid: number | null): number | null {
  const rows = pid === null ? [] : readTree(pid);
  return rows.length === 0 ? null : cpuTimeOfRows(rows);
}

export function sampleTree(pid: number | null, at: number): TimeSample {
  const load = loadPerProcessor();
  const rows = pid === null ? [] : readTree(pid);
  if (rows.length === 0) return { at, cpu_ms: null, held_up: false, load };
  return { at, cpu_ms: cpuTimeOfRows(rows), held_up: isHeldUp(rows), load };
}

function readTree(pid: number): ProcessRow[] {
  const rows: ProcessRow[] = [];
  const pending = [pid];
  for (let visited = 0; pending.length > 0 && visited < MAX_PROCESSES; visited++) {
    const row = readProcess(pending.pop()!);
    if (row === null) continue;
    rows.push(row);
    pending.push(...childrenOf(row.pid));
  }
  return rows;
}

function cpuTimeOfRows(rows: readonly ProcessRow[]): number {
  return rows.reduce((ticks, row) => ticks + row.cpu_ticks + row.reaped_ticks, 0) * MS_PER_TICK;
}

function isHeldUp(rows: readonly ProcessRow[]): boolean {
  let threads = 0;
  for (const { pid } of rows) {
    if (threads >= MAX_THREADS) return false;
    for (const thread of listThreads(pid)) {
      threads++;
      if (HELD_UP.has(readStat(`/proc/${pid}/task/${thread}/stat`)?.state ?? "")) return true;
    }
  }
  return false;
}

function listThreads(pid: number): string[] {
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
