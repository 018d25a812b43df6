/**
 * Runs schema tasks in a worker thread that is started on demand and terminated when it has been idle for a while.
 * Tasks run one after another, so the task that exceeds its time limit is known; its time is measured from the start of
 * the task. On a busy machine the thread may wait a long time for a processor, so the limit applies to the CPU time of
 * this process, which is an upper bound for that of the thread.
 */
import { Worker } from "node:worker_threads";
import type { WorkerReply, WorkerTask } from "./schema-worker.ts";

export type ThreadReply = WorkerReply | { kind: "too_slow" } | { kind: "died"; why: string };

export interface SchemaThread {
  run(task: WorkerTask, limit_ms: number): Promise<ThreadReply>;
  close(): Promise<void>;
}

const START_MS = 30_000;
/** The limit in wall time, for a thread that computes nothing and never replies. */
const MAX_WAIT_MS = 120_000;
const LIMITS = { maxOldGenerationSizeMb: 96, maxYoungGenerationSizeMb: 16, stackSizeMb: 4 };

export function createSchemaThread(file: URL, idle_ms: number): SchemaThread {
  let worker: Worker | null = null;
  let previous: Promise<unknown> = Promise.resolve();
  let idle_timer: NodeJS.Timeout | undefined;
  let unfinished = 0;

  const end = async (): Promise<void> => {
    clearTimeout(idle_timer);
    const ended = worker;
    worker = null;
    await ended?.terminate();
  };

  const start = async (): Promise<Worker | ThreadReply> => {
    if (worker !== null) return worker;
    const started = new Worker(file, { resourceLimits: LIMITS, execArgv: [], env: {}, name: "schemas" });
    // Without a listener, a late error of a thread that is being terminated would be an uncaught exception.
    started.on("error", () => {});
    worker = started;
    const first = await nextMessage(started, START_MS);
    return first === "ready" ? started : toFailure(first);
  };

  const runNow = async (task: WorkerTask, limit_ms: number): Promise<ThreadReply> => {
    clearTimeout(idle_timer);
    const ready = await start();
    if (!(ready instanceof Worker)) {
      await end();
      return ready;
    }
    ready.ref();
    const received = nextMessage(ready, limit_ms);
    ready.postMessage(task);
    const message = await received;
    if (message === "too_slow" || message === "ready" || message instanceof Error) {
      await end();
      return toFailure(message);
    }
    ready.unref();
    return message;
  };

  return {
    run(task, limit_ms) {
      unfinished++;
      const run = previous.then(() => runNow(task, limit_ms));
      previous = run
        .catch(() => end())
        .then(() => {
          if (--unfinished > 0) return;
          idle_timer = setTimeout(() => void end(), idle_ms);
          idle_timer.unref();
        });
      return run;
    },
    close: end,
  };
}

type WorkerMessage = WorkerReply | "ready" | "too_slow" | Error;

function toFailure(message: WorkerMessage): ThreadReply {
  if (message === "too_slow") return { kind: "too_slow" };
  return { kind: "died", why: message instanceof Error ? message.message : "it sent an unexpected message" };
}

function nextMessage(worker: Worker, limit_ms: number): Promise<WorkerMessage> {
  return new Promise((resolve) => {
    const finish = (message: WorkerMessage) => {
      clearTimeout(timer);
      worker.off("message", finish);
      worker.off("error", finish);
      worker.off("exit", onExit);
      resolve(message);
    };
    const onExit = () => finish(new Error("the thread exited"));
    const started_at = performance.now();
    const cpu_before = process.cpuUsage();
    const checkTime = () => {
      const { user, system } = process.cpuUsage(cpu_before);
      const left_ms = limit_ms - (user + system) / 1_000;
      // A message that has already arrived is read first, because this thread may be late.
      if (left_ms <= 0 || performance.now() - started_at >= MAX_WAIT_MS)
        setImmediate(() => finish("too_slow"));
      else timer = setTimeout(checkTime, Math.max(left_ms, 1));
    };
    let timer = setTimeout(checkTime, limit_ms);
    worker.on("message", finish);
    worker.on("error", finish);
    worker.on("exit", onExit);
  });
}
