/**
 * Counts the commits of a store, in the store and in a small file beside it. SQLite ends a damaged log at its first
 * bad frame and says nothing, so acknowledged commits would be gone without a trace; with the count they are missed.
 * The file is written after the commit and before its acknowledgement, without a sync of its own: it may lag behind
 * the store after a power cut, and is never ahead of it unless the store lost something.
 */
import { closeSync, openSync, readFileSync, renameSync, writeSync } from "node:fs";
import { crc32 } from "node:zlib";
import { type Op, type Statement, sql } from "../../ops/op.ts";
import type { Connection } from "./connection.ts";
import { STATE_TABLE, sumOf } from "./row-checksums.ts";

export interface Commits {
  count: number;
  /** When the last one was made, in milliseconds since 1970. */
  at: number;
}

export interface CommitCounter {
  /** SpanPart of every transaction that writes. */
  next(): Statement;
  /** The transaction is on disk. */
  committed(): void;
  close(): void;
}

interface State extends Commits {
  schema_sum: number;
}

const WRITE = `update ${STATE_TABLE} set commits = $1, at = $2, schema_sum = $3, sum = $4 where one = 1`;

/** Null where the schema is older than the counter. */
export function createCommitCounter(connection: Connection, file: string): CommitCounter | null {
  const state = readState(connection);
  if (state === null) return null;
  const handle = openSync(countFile(file), "a+", 0o600);
  closeSync(handle);
  const fd = openSync(countFile(file), "r+");
  let pending: State = state;
  return {
    next() {
      pending = { count: state.count + 1, at: Date.now(), schema_sum: state.schema_sum };
      return writeState(pending);
    },
    committed() {
      Object.assign(state, pending);
      writeSync(fd, lineageOf(state), 0);
    },
    close: () => closeSync(fd),
  };
}

export function writeState(state: State): Statement {
  const { count, at, schema_sum } = state;
  return sql(WRITE, [count, at, schema_sum, sumOf([1, count, at, schema_sum])]);
}

export function readState(connection: Connection): State | null {
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

/** What the file beside the store says; `damaged` when it says nothing that can be believed. */
export function readCount(file: string): Commits | "missing" | "damaged" {
  let text: string;
  try {
    text = readFileSync(countFile(file), "utf8");
  } catch (error) {
    if ((error as { code?: string }).code === "ENOENT") return "missing";
    throw error;
  }
  if (text === "") return "missing";
  const match = /^(\d{16}) (\d{16}) ([0-9a-f]{8})\n$/.exec(text);
  if (match === null || crcOf(`${match[1]} ${match[2]}`) !== match[3]) return "damaged";
  return { count: Number(match[1]), at: Number(match[2]) };
}

/** Starts counting from what the store has. The old file stays beside it under another name. */
export function resetCount(file: string, commits: Commits, keep_as: string | null): void {
  if (keep_as !== null) renameSync(countFile(file), keep_as);
  const fd = openSync(countFile(file), "w", 0o600);
  writeSync(fd, lineageOf(commits), 0);
  closeSync(fd);
}

export function countFile(file: string): string {
  return `${file}.commits`;
}

/** Of fixed length: each write covers the one before. */
function lineageOf({ count, at }: Commits): string {
  const text = `${String(count).padStart(16, "0")} ${String(at).padStart(16, "0")}`;
  return `${text} ${crcOf(text)}\n`;
}

function crcOf(text: string): string {
  return crc32(text).toString(16).padStart(8, "0");
}
