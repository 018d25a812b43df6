/**
 * Collects writes into batches. A write that finds the writer idle goes at the end of this turn of the event loop,
 * so that everything the turn's sockets ask for shares one commit; while a batch is under way, the next one forms
 * by itself, so that the busier the store is, the more writers share a commit. A burst is cut in two: from then on
 * one half of its writers works while the commit of the other half is under way.
 */
import type { WriteInput, WriteName } from "../../ops/writes.ts";
import { toSqliteError } from "../connection/sqlite-error.ts";
import type { BatchResult, Call } from "./run-batch.ts";
import type { Writer } from "./writer.ts";

export interface GroupCommit {
  write(name: WriteName, input: unknown): Promise<unknown>;
  later(rows: WriteInput<"appendProgress">): void;
  /** Resolves when everything submitted so far has been answered. */
  drain(): Promise<void>;
}

interface Waiting {
  call: Call;
  resolve(value: unknown): void;
  reject(error: Error): void;
}

const MAX_BATCH = 256;
const MAX_BATCH_CHARS = 8 * 1024 * 1024;
const PROGRESS_DELAY_MS = 25;
const MAX_PROGRESS_ROWS = 10_000;

export function createGroupCommit(writer: Writer, onLost: (rows: number, why: Error) => void): GroupCommit {
  const queue: Waiting[] = [];
  let progress: WriteInput<"appendProgress"> = [];
  let timer: NodeJS.Timeout | null = null;
  let scheduled = false;
  let under_way = 0;
  /** How many share a commit lately. */
  let usual = 1;
  const idle: (() => void)[] = [];

  const pump = (): void => {
    scheduled = false;
    while (under_way < writer.depth && (queue.length > 0 || (progress.length > 0 && timer === null))) {
      send(nextBatch(queue));
    }
    if (under_way === 0 && queue.length === 0) for (const resolve of idle.splice(0)) resolve();
  };

  const schedule = (): void => {
    if (scheduled || under_way >= writer.depth) return;
    scheduled = true;
    setImmediate(gather);
  };

  /** Much fewer than usual are the first of a wave: one more turn, and most of it shares their commit. */
  const gather = (): void => {
    if (queue.length >= usual / 2) pump();
    else setImmediate(pump);
  };

  const send = (batch: Waiting[]): void => {
    if (progress.length > 0) batch.unshift(takeProgress());
    under_way++;
    void writer.run(batch.map((waiting) => waiting.call)).then((result) => {
      under_way--;
      usual += (batch.length - usual) / 5;
      answer(batch, result);
      pump();
    });
  };

  /** A burst in one turn: its first calls are committed while the others are still being made. */
  const startEarly = (): void => {
    if (under_way === 0 && queue.length >= writer.burst) send(nextBatch(queue));
  };

  const takeProgress = (): Waiting => {
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
        startEarly();
      }),
    later(rows) {
      progress.push(...rows);
      if (progress.length > MAX_PROGRESS_ROWS) {
        const lost = progress.length - MAX_PROGRESS_ROWS;
        progress.splice(0, lost);
        onLost(lost, new Error("the store is too slow for them"));
      }
      timer ??= setTimeout(() => {
        timer = null;
        pump();
      }, PROGRESS_DELAY_MS);
    },
    drain() {
      if (timer !== null) clearTimeout(timer);
      timer = null;
      return new Promise((resolve) => {
        idle.push(resolve);
        pump();
      });
    },
  };
}

/** Bounded in rows and in size: a batch is held in the memory of both threads. */
function nextBatch(queue: Waiting[]): Waiting[] {
  let size = 0;
  let count = 0;
  while (count < queue.length && count < MAX_BATCH && size < MAX_BATCH_CHARS) {
    size += weigh(queue[count]!.call.input, 4);
    count++;
  }
  return queue.splice(0, count);
}

function weigh(value: unknown, depth: number): number {
  if (typeof value === "string") return value.length;
  if (depth === 0 || typeof value !== "object" || value === null) return 0;
  let size = 0;
  if (Array.isArray(value)) for (const part of value) size += weigh(part, depth - 1);
  else for (const key in value) size += weigh((value as Record<string, unknown>)[key], depth - 1);
  return size;
}

function answer(batch: Waiting[], result: BatchResult): void {
  if (result.broken !== null) {
    for (const waiting of batch) waiting.reject(toSqliteError(result.broken));
    return;
  }
  const failed = new Map(result.failures);
  for (const [index, waiting] of batch.entries()) {
    const failure = failed.get(index);
    if (failure === undefined) waiting.resolve(result.values[index]);
    else waiting.reject(toSqliteError(failure));
  }
}
