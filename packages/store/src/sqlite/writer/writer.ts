/** Runs batches, in a separate thread or on the main thread. */
import type { CommitCounter } from "../connection/commit-counter.ts";
import type { SqliteConnection } from "../connection/connection.ts";
import { type BatchResult, runBatch, type WriteCall } from "./run-batch.ts";

export interface Writer {
  run(calls: WriteCall[]): Promise<BatchResult>;
  /** How many batches may be in flight. More than one keeps a thread busy while its last result is being read. */
  depth: number;
  /**
   * Once this many calls are queued in one turn of the event loop, they are sent before the turn ends. Useful only with
   * a second thread.
   */
  burst: number;
  close(): Promise<void>;
}

export function createLocalWriter(connection: SqliteConnection, counter: CommitCounter | null): Writer {
  return {
    depth: 1,
    burst: Number.POSITIVE_INFINITY,
    // One turn of the event loop later, so that all writes of this turn share the commit.
    run: (calls) =>
      new Promise((resolve) => {
        setImmediate(() => resolve(runBatch(connection, calls, counter)));
      }),
    async close() {
      connection.close();
      counter?.close();
    },
  };
}
