/** What runs batches: a thread of its own, or the main thread. */
import type { CommitCounter } from "../connection/commit-counter.ts";
import type { Connection } from "../connection/connection.ts";
import { type BatchResult, type Call, runBatch } from "./run-batch.ts";

export interface Writer {
  run(calls: Call[]): Promise<BatchResult>;
  /** How many batches may be under way at once; more than one keeps a thread busy while we read its answer. */
  depth: number;
  /** How many calls of one turn are sent without waiting for its end; nothing is gained without a second thread. */
  burst: number;
  close(): Promise<void>;
}

export function createLocalWriter(connection: Connection, counter: CommitCounter | null): Writer {
  return {
    depth: 1,
    burst: Number.POSITIVE_INFINITY,
    // One turn of the event loop later, so that everything that is asked for in this turn shares the commit.
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
