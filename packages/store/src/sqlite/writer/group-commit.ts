/**
 * Collects writes into batches, one commit each. With an idle writer a batch is sent at the end of the current turn of the
 * event loop, so that all requests of the turn share a commit. While a batch is in flight the next one accumulates, so
 * the load determines how many writers share a commit. A burst is split in two: one half of its writers continues while
 * the other half is being committed. Measured by the benchmark store.append.
 */
import type { WriteInput, WriteName } from "../../ops/writes.ts";
import { toSqliteError } from "../connection/sqlite-error.ts";
import type { BatchResult, WriteCall } from "./run-batch.ts";
import type { Writer } from "./writer.ts";

export interface GroupCommit {
  write(name: WriteName, input: unknown): Promise<unknown>;
  bufferProgress(rows: WriteInput<"appendProgress">): void;
  /** Resolves when every write submitted so far has settled. */
  drain(): Promise<void>;
}

interface PendingWrite {
  call: WriteCall;
  resolve(value: unknown): void;
  reject(error: Error): void;
}

const MAX_BATCH = 256;
const MAX_BATCH_CHARS = 8 * 1024 * 1024;
const PROGRESS_DELAY_MS = 25;
const MAX_PROGRESS_ROWS = 10_000;

export function createGroupCommit(
  writer: Writer,
  onLost: (rows: number, reason: Error) => void,
): GroupCommit {
  const queue: PendingWrite[] = [];
  let progress: WriteInput<"appendProgress"> = [];
  let timer: NodeJS.Timeout | null = null;
  let scheduled = false;
  let in_flight = 0;
  /** Moving average of the size of batches. */
  let average = 1;
  const idle: (() => void)[] = [];

  const sendBatches = (): void => {
    scheduled = false;
    while (in_flight < writer.depth && (queue.length > 0 || (progress.length > 0 && timer === null))) {
      send(nextBatch(queue));
    }
    if (in_flight === 0 && queue.length === 0) for (const resolve of idle.splice(0)) resolve();
  };

  const schedule = (): void => {
    if (scheduled || in_flight >= writer.depth) return;
    scheduled = true;
    setImmediate(sendOrWait);
  };

  /** Far fewer writes than usual may be the start of a burst, so their commit waits one turn for the rest of it. */
  const sendOrWait = (): void => {
    if (queue.length >= average / 2) sendBatches();
    else setImmediate(sendBatches);
  };

  const send = (batch: PendingWrite[]): void => {
    if (progress.length > 0) batch.unshift(takeProgress());
    in_flight++;
    void writer.run(batch.map((pending) => pending.call)).then((result) => {
      in_flight--;
      average += (batch.length - average) / 5;
      settle(batch, result);
      sendBatches();
    });
  };

  /** Commits the first calls of a burst while the others are still being submitted. */
  const sendBurst = (): void => {
    if (in_flight === 0 && queue.length >= writer.burst) send(nextBatch(queue));
  };

  const takeProgress = (): PendingWrite => {
    const rows = progress;
    progress = [];
    if (timer !== null) clearTimeout(timer);
    timer = null;
    return {
      call: { name: "appendProgress", input: rows },
      resolve: () => {},
      reject: (error) => onLost(rows.length, error),
    };
  };

  return {
    write: (name, input) =>
      new Promise((resolve, reject) => {
        queue.push({ call: { name, input }, resolve, reject });
        schedule();
        sendBurst();
      }),
    bufferProgress(rows) {
      progress.push(...rows);
      if (progress.length > MAX_PROGRESS_ROWS) {
        const lost = progress.length - MAX_PROGRESS_ROWS;
        progress.splice(0, lost);
        onLost(lost, new Error("the store is too slow to write them"));
      }
      timer ??= setTimeout(() => {
        timer = null;
        sendBatches();
      }, PROGRESS_DELAY_MS);
    },
    drain() {
      if (timer !== null) clearTimeout(timer);
      timer = null;
      return new Promise((resolve) => {
        idle.push(resolve);
        sendBatches();
      });
    },
  };
}

/** A batch is limited in calls and in size, because both threads hold it in memory. */
function nextBatch(queue: PendingWrite[]): PendingWrite[] {
  let size = 0;
  let count = 0;
  while (count < queue.length && count < MAX_BATCH && size < MAX_BATCH_CHARS) {
    size += estimateSize(queue[count]!.call.input, 4);
    count++;
  }
  return queue.splice(0, count);
}

function estimateSize(value: unknown, depth: number): number {
  if (typeof value === "string") return value.length;
  if (depth === 0 || typeof value !== "object" || value === null) return 0;
  let size = 0;
  if (Array.isArray(value)) for (const part of value) size += estimateSize(part, depth - 1);
  else for (const key in value) size += estimateSize((value as Record<string, unknown>)[key], depth - 1);
  return size;
}

function settle(batch: PendingWrite[], result: BatchResult): void {
  if (result.broken !== null) {
    for (const pending of batch) pending.reject(toSqliteError(result.broken));
    return;
  }
  const failed = new Map(result.failures);
  for (const [index, pending] of batch.entries()) {
    const failure = failed.get(index);
    if (failure === undefined) pending.resolve(result.values[index]);
    else pending.reject(toSqliteError(failure));
  }
}
