/** The processes of this machine according to /proc. Empty without /proc. */
import { readFileSync } from "node:fs";
import { readdir, readFile } from "node:fs/promises";

export interface ProcessRow {
  pid: number;
  ppid: number;
  pgrp: number;
  session: number;
  /** One letter: R runnable, S sleeping, D waiting for I/O, T stopped, Z zombie. */
  state: string;
  /** User and system time, in clock ticks. */
  cpu_ticks: number;
  /** The same time of its children that have exited and were waited for. */
  reaped_ticks: number;
  /** Start time in clock ticks since boot. */
  start_ticks: number;
}

/** Low, because the reads share the thread pool with the rest of the gateway. */
const MAX_CONCURRENT_READS = 16;
/**
 * Synchronous reads before the event loop runs again. A read takes about ten microseconds, so a slice blocks the loop
 * for less than a millisecond.
 */
const READS_PER_SLICE = 32;

export function parseStat(text: string): ProcessRow | null {
  // The name is in parentheses and may contain spaces and parentheses.
  const end = text.lastIndexOf(")");
  const fields = text.slice(end + 2).split(" ");
  const pid = Number.parseInt(text, 10);
  if (end < 0 || fields.length < 20 || !(pid > 0)) return null;
  const number = (index: number) => Number(fields[index]);
  return {
    pid,
    state: fields[0]!,
    ppid: number(1),
    pgrp: number(2),
    session: number(3),
    cpu_ticks: number(11) + number(12),
    reaped_ticks: number(13) + number(14),
    start_ticks: number(19),
  };
}

export function readProcess(pid: number): ProcessRow | null {
  try {
    return parseStat(readFileSync(`/proc/${pid}/stat`, "utf8"));
  } catch {
    return null;
  }
}

/**
 * Returns the processes that are alive. The kernel serves `stat` from memory without blocking, so it is read
 * synchronously: through the thread pool it would cost four times the CPU time, which other plugins need to start.
 */
export async function readProcesses(): Promise<ProcessRow[]> {
  const names = (await readdir("/proc").catch(() => [])).filter((name) => /^\d+$/.test(name));
  const rows: ProcessRow[] = [];
  for (const [index, name] of names.entries()) {
    if (index > 0 && index % READS_PER_SLICE === 0) await new Promise((resolve) => setImmediate(resolve));
    const row = readProcess(Number(name));
    if (row !== null && row.state !== "Z" && row.state !== "X") rows.push(row);
  }
  return rows;
}

/**
 * Returns the pids of the rows whose environment contains this text. Reading an environment can block on the process,
 * so it uses the thread pool.
 */
export async function findByEnvironment(rows: readonly ProcessRow[], text: string): Promise<number[]> {
  const marked = await inBatches(rows, async ({ pid }) => {
    const environment = await readFile(`/proc/${pid}/environ`).catch(() => Buffer.alloc(0));
    return environment.includes(text) ? pid : 0;
  });
  return marked.filter((pid) => pid > 0);
}

/**
 * Returns `seeds`, their descendants, and all members of the sessions and process groups of these processes. A seed
 * must not share its session or group with a process outside its tree; otherwise that process is returned as well.
 */
export function withDescendants(rows: readonly ProcessRow[], seeds: Iterable<number>): Set<number> {
  const pids = new Set(seeds);
  const groups = new Set<number>();
  for (let previous_size = -1; previous_size !== pids.size; ) {
    previous_size = pids.size;
    for (const { pid, pgrp, session } of rows) {
      if (!pids.has(pid)) continue;
      groups.add(pgrp);
      groups.add(session);
    }
    for (const { pid, ppid, pgrp, session } of rows) {
      if (pids.has(ppid) || groups.has(pgrp) || groups.has(session)) pids.add(pid);
    }
  }
  return pids;
}

async function inBatches<T, R>(items: readonly T[], work: (item: T) => Promise<R>): Promise<R[]> {
  const results: R[] = [];
  for (let at = 0; at < items.length; at += MAX_CONCURRENT_READS) {
    results.push(...(await Promise.all(items.slice(at, at + MAX_CONCURRENT_READS).map(work))));
  }
  return results;
}
