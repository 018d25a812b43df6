/** What runs batches: a thread of its own, or the main thread. */
import type { Connection } from "./connection.ts";
import { type BatchResult, type Call, createBatch } from "./run-batch.ts";

export interface Writer {
  /** The first calls of the batch that `run` completes in the same turn of the event loop. */
  start(calls: Call[]): void;
  run(calls: Call[]): Promise<BatchResult>;
  /** How many batches may be under way at once; more than one keeps a thread busy while we read its answer. */
  depth: number;
  /** How many calls make `start` worth while; without a second thread there is nothing to gain. */
  part: number;
  close(): Promise<void>;
}

export function createLocalWriter(connection: Connection): Writer {
  return {
    depth: 1,
    part: Number.POSITIVE_INFINITY,
    start() {
      throw new Error("the main thread takes whole batches");
    },
    // One turn of the event loop later, so that everything that is asked for in this turn shares the commit.
    run: (calls) =>
      new Promise((resolve) => {
        setImmediate(() => {
          const batch = createBatch(connection);
          batch.add(calls);
          resolve(batch.commit());
        });
      }),
    close: async () => connection.close(),
  };
}
