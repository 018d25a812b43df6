/** The interface to a database, SQLite or PostgreSQL. Every port is implemented once on top of it. */
import type { MaybePromise } from "@backplane/contract";
import type { Op, SqlDialect } from "../ops/op.ts";
import type { WriteInput, WriteName, WriteResult } from "../ops/writes.ts";

export interface Backend {
  dialect: SqlDialect;
  /** Returns `now`, the caller's time, or null if the database uses its own clock (see nowSql). */
  selectTime(now: number): number | null;
  /**
   * Resolves when the write is on disk. A refused write has changed nothing. After `store.unavailable` the outcome can
   * be unknown, because the connection or the writer thread failed.
   */
  write<N extends WriteName>(name: N, input: WriteInput<N>): Promise<WriteResult<N>>;
  /** Writes progress events with the next commit. Best effort. */
  bufferProgress(rows: WriteInput<"appendProgress">): void;
  read<T>(op: (dialect: SqlDialect) => Op<T>): Promise<T>;
  /** Like `read`, but returns damaged rows too, for code that verifies hashes itself and reports where they break. */
  readUnchecked<T>(op: (dialect: SqlDialect) => Op<T>): Promise<T>;
  /**
   * A read that many requests make (benchmark http.invoke). SQLite returns the value without a promise, from a cache
   * that is never stale and in which `key` identifies the read. PostgreSQL has no cache.
   */
  readCached<T>(key: string, op: (dialect: SqlDialect) => Op<T>): MaybePromise<T>;
  onAppended(listener: () => void): () => void;
  /** Called after this process has committed events. */
  notifyAppended(): void;
  ping(): Promise<void>;
  close(): Promise<void>;
}
