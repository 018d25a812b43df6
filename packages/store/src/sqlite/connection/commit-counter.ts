/**
 * Counts the commits of a store, in the store and in a small file next to it. SQLite silently ends a damaged log at its
 * first bad frame, so acknowledged commits could be lost without notice; the count detects this. The file is written
 * after the commit and before its acknowledgement, without a separate sync. After a power failure or a failed write it
 * may be behind the store, but it is ahead only if the store has lost commits.
 */
import { closeSync, openSync, readFileSync, renameSync, writeSync } from "node:fs";
import { crc32 } from "node:zlib";
import { type Op, type Statement, sql } from "../../ops/op.ts";
import type { SqliteConnection } from "./connection.ts";
import { checksumOf, STATE_TABLE } from "./row-checksums.ts";

export interface Commits {
  count: number;
  /** Time of the last commit, in milliseconds since 1970. */
  at: number;
}

export interface CommitCounter {
  /** The statement to add to every transaction that writes. */
  next(): Statement;
  /** The caller calls this once the transaction is on disk. */
  recordCommit(): void;
  close(): void;
}

interface State extends Commits {
  schema_sum: number;
}

const WRITE = `update ${STATE_TABLE} set commits = $1, at = $2, schema_sum = $3, sum = $4 where one = 1`;

/** Null if the schema is older than the counter. */
export function createCommitCounter(connection: SqliteConnection, file: string): CommitCounter | null {
  const state = readState(connection);
  if (state === null) return null;
  const handle = openSync(commitFilePath(file), "a+", 0o600);
  closeSync(handle);
  const fd = openSync(commitFilePath(file), "r+");
  let pending: State = state;
  return {
    next() {
      pending = { count: state.count + 1, at: Date.now(), schema_sum: state.schema_sum };
      return writeState(pending);
    },
    recordCommit() {
      Object.assign(state, pending);
      try {
        writeSync(fd, formatLine(state), 0);
      } catch {
        // The transaction is on disk, so it must not be reported as failed; the next commit writes the count again.
      }
    },
    close: () => closeSync(fd),
  };
}

export function writeState(state: State): Statement {
  const { count, at, schema_sum } = state;
  return sql(WRITE, [count, at, schema_sum, checksumOf([1, count, at, schema_sum])]);
}

export function readState(connection: SqliteConnection): State | null {
  return connection.run(
    (function* (): Op<State | null> {
      const [table] = yield sql("select name from sqlite_schema where type = 'table' and name = $1", [
        STATE_TABLE,
      ]);
      if (table === undefined) return null;
      const [row] = yield sql(`select commits, at, schema_sum from ${STATE_TABLE} where one = 1`);
      if (row === undefined) return { count: 0, at: 0, schema_sum: 0 };
      return { count: row.commits as number, at: row.at as number, schema_sum: row.schema_sum as number };
    })(),
  );
}

/** Reads the file next to the store. Returns "damaged" if its checksum does not match. */
export function readCommitFile(file: string): Commits | "missing" | "damaged" {
  let text: string;
  try {
    text = readFileSync(commitFilePath(file), "utf8");
  } catch (error) {
    if ((error as { code?: string }).code === "ENOENT") return "missing";
    throw error;
  }
  if (text === "") return "missing";
  const match = /^(\d{16}) (\d{16}) ([0-9a-f]{8})\n$/.exec(text);
  if (match === null || checksumText(`${match[1]} ${match[2]}`) !== match[3]) return "damaged";
  return { count: Number(match[1]), at: Number(match[2]) };
}

/** Restarts the count from the count of the store. The old file is renamed to `keep_as`, unless that is null. */
export function resetCommitFile(file: string, commits: Commits, keep_as: string | null): void {
  if (keep_as !== null) renameSync(commitFilePath(file), keep_as);
  const fd = openSync(commitFilePath(file), "w", 0o600);
  writeSync(fd, formatLine(commits), 0);
  closeSync(fd);
}

export function commitFilePath(file: string): string {
  return `${file}.commits`;
}

/** Has a fixed length, so that each write replaces the previous one. */
function formatLine({ count, at }: Commits): string {
  const text = `${String(count).padStart(16, "0")} ${String(at).padStart(16, "0")}`;
  return `${text} ${checksumText(text)}\n`;
}

function checksumText(text: string): string {
  return crc32(text).toString(16).padStart(8, "0");
}
