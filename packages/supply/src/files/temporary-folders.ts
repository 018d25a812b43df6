/**
 * The name of a temporary folder contains the id and the start time of the process that created it. The folder is stale
 * once that process has exited. Another process may get the same id, so a folder of another process is also stale after
 * an hour without a change. A killed gateway therefore leaves nothing behind permanently.
 */
import { randomBytes } from "node:crypto";
import { readdirSync, rmSync, statSync } from "node:fs";
import { join } from "node:path";
import { performance } from "node:perf_hooks";

const STALE_MS = 3_600_000;

export function temporaryName(prefix: string): string {
  return `${prefix}${process.pid}-${processStart()}-${randomBytes(6).toString("hex")}`;
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
  if (pid === process.pid) return start !== processStart();
  try {
    process.kill(pid, 0);
  } catch (error) {
    if ((error as { code?: string }).code === "ESRCH") return true;
  }
  const changed_at = statSync(path, { throwIfNoEntry: false })?.mtimeMs;
  return changed_at !== undefined && Date.now() - changed_at > STALE_MS;
}

function processStart(): string {
  return Math.round(performance.timeOrigin * 1000).toString(36);
}
