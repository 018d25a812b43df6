/**
 * Checks a store when it is opened: a small file before it is used, a large one in a thread while it is used. A file
 * that cannot be trusted is refused. Single damaged rows are logged and refused when they are read, since one of them
 * must not make all others unusable.
 */
import { copyFileSync, statSync } from "node:fs";
import { Worker } from "node:worker_threads";
import { BackplaneError } from "@backplane/contract";
import type { Logger } from "@backplane/ports";
import { commitFilePath, readCommitFile, readState, resetCommitFile } from "../connection/commit-counter.ts";
import type { SqliteConnection } from "../connection/connection.ts";
import { CHECK_PARTS, type CheckPart, type FileDamage, findDamage } from "./check-file.ts";
import type { CheckThreadData } from "./check-thread.ts";
import { buildRestoreAdvice, damagedStoreError, listBackups } from "./restore-advice.ts";

/**
 * Up to this size a part is checked before the gateway is ready; a larger file is checked in a thread while the gateway
 * runs. Structural damage makes results wrong, so up to about 50 ms are spent on it first (benchmark boot.ready).
 * Damaged rows are only logged, because each of them is refused when it is read.
 */
const CHECK_FIRST_BYTES: Record<CheckPart, number> = {
  structure: 32 * 1024 * 1024,
  rows: 1024 * 1024,
};

export function planCheck(
  file: string,
  first_bytes: Partial<Record<CheckPart, number>> = {},
): { first: CheckPart[]; later: CheckPart[] } {
  const size = statSync(file, { throwIfNoEntry: false })?.size ?? 0;
  const limits = { ...CHECK_FIRST_BYTES, ...first_bytes };
  return {
    first: CHECK_PARTS.filter((part) => size <= limits[part]),
    later: CHECK_PARTS.filter((part) => size > limits[part]),
  };
}

/** Throws `store.damaged` when the file cannot be trusted. */
export function checkDatabaseContent(
  connection: SqliteConnection,
  file: string,
  parts: readonly CheckPart[],
  log: Logger | undefined,
): void {
  report(findDamage(connection.database, parts), file, log, (error) => {
    throw error;
  });
}

/** Calls `refuse` when the file cannot be trusted. */
export function checkInThread(
  file: string,
  parts: readonly CheckPart[],
  log: Logger | undefined,
  refuse: (error: BackplaneError) => void,
): { stop(): Promise<void> } {
  const workerData: CheckThreadData = { file, parts };
  const worker = new Worker(threadEntry(), {
    workerData,
    name: "store-check",
  });
  worker.unref();
  worker.on("message", (damage: FileDamage) => report(damage, file, log, refuse));
  worker.on("error", (error) => log?.error({ err: error }, "the store could not be checked"));
  return { stop: async () => void (await worker.terminate()) };
}

/** The program is in the same folder as this file, in the sources and in the build. */
function threadEntry(): URL {
  return new URL(
    import.meta.url.endsWith(".ts") ? "./check-thread.ts" : "./check-thread.js",
    import.meta.url,
  );
}

function report(
  { structure, rows }: FileDamage,
  file: string,
  log: Logger | undefined,
  refuse: (error: BackplaneError) => void,
): void {
  for (const { table, id } of rows) {
    log?.error(
      { table, id, fix: buildRestoreAdvice(file) },
      "a row of the store is damaged and will not be used",
    );
  }
  if (structure.length === 0) return;
  const error = damagedStoreError(
    file,
    `${file} is damaged, so results could be wrong or incomplete: ${structure.slice(0, 3).join("; ")}.`,
    { structure, rows },
  );
  log?.error({ structure, fix: error.fix }, "the store is damaged");
  refuse(error);
}

/** Throws `store.commits_lost` when the store has fewer commits than were acknowledged. */
export function checkCommits(connection: SqliteConnection, file: string, log: Logger | undefined): void {
  const counted = readCommitFile(file);
  // A file without the counter is from an earlier version, or older than the first counted commit.
  const state = readState(connection) ?? { count: 0, at: 0 };
  if (counted === "missing") return;
  if (counted === "damaged") {
    const kept = `${commitFilePath(file)}.damaged-${timestampForName()}`;
    resetCommitFile(file, state, kept);
    log?.error(
      { file: commitFilePath(file), kept },
      "the file with the count of commits is damaged; lost commits cannot be detected this time, and the count restarts from the store",
    );
    return;
  }
  if (counted.count <= state.count) return;
  const lost = counted.count - state.count;
  const kept = copyLog(file);
  const since = state.at === 0 ? "the beginning" : new Date(state.at).toISOString();
  const [backup] = listBackups(file);
  throw new BackplaneError(
    "store.commits_lost",
    `${lost} acknowledged ${lost === 1 ? "commit is" : "commits are"} missing from ${file}: everything written after ${since} and up to ${new Date(counted.at).toISOString()}. The log (${file}-wal) is damaged or missing, or the file was replaced by an older one.`,
    {
      details: { lost, since, until: new Date(counted.at).toISOString(), ...(kept === null ? {} : { kept }) },
      fix: `Restore the files of this home from a copy${backup === undefined ? "" : `, or run \`backplane store restore ${backup}\``}, or continue without the lost commits: \`backplane store repair --accept-loss\`.`,
    },
  );
}

/** Keeps a copy of the log for manual recovery, because closing the store removes it. */
function copyLog(file: string): string | null {
  const wal = `${file}-wal`;
  if ((statSync(wal, { throwIfNoEntry: false })?.size ?? 0) === 0) return null;
  const kept = `${wal}.damaged-${timestampForName()}`;
  copyFileSync(wal, kept);
  return kept;
}

export function timestampForName(): string {
  return new Date().toISOString().replaceAll(/[:.]/g, "-");
}
