/**
 * Temporary folders carry who made them: process id and start of that process. A folder whose maker is gone is
 * stale; one whose maker may live is left alone for an hour. So a killed gateway leaves nothing for good, and two
 * processes beside each other do not remove each other's work.
 */
import { randomBytes } from "node:crypto";
import { readdirSync, rmSync, statSync } from "node:fs";
import { join } from "node:path";
import { performance } from "node:perf_hooks";

const STALE_MS = 3_600_000;

export function temporaryName(prefix: string): string {
  return `${prefix}${process.pid}-${startOfProcess()}-${randomBytes(6).toString("hex")}`;
}

export function sweepStale(folder: string, prefix: string): void {
  let names: string[];
  try {
    names = readdirSync(folder);
  } catch {
    return;
  }
  for (const name of names) {
    const match = name.startsWith(prefix) ? /^(\d+)-([0-9a-z]+)-/.exec(name.slice(prefix.length)) : null;
    if (match === null) continue;
    const path = join(folder, name);
    if (isStale(Number(match[1]), match[2] as string, path)) rmSync(path, { recursive: true, force: true });
  }
}

function isStale(pid: number, start: string, path: string): boolean {
  if (pid === process.pid) return start !== startOfProcess();
  try {
    process.kill(pid, 0);
  } catch (error) {
    if ((error as { code?: string }).code === "ESRCH") return true;
  }
  const changed = statSync(path, { throwIfNoEntry: false })?.mtimeMs;
  return changed !== undefined && Date.now() - changed > STALE_MS;
}

function startOfProcess(): string {
  return Math.round(performance.timeOrigin * 1000).toString(36);
}
