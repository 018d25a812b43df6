/**
 * The main thread's side of the writer thread. When the thread dies, its batches are reported as broken, and those
 * that were not committed are lost. The next batch starts a new thread.
 */
import { once } from "node:events";
import { Worker } from "node:worker_threads";
import type { Logger } from "@backplane/ports";
import type { HookModule } from "../connection/connection.ts";
import { createPacker } from "./pack-batch.ts";
import type { BatchResult } from "./run-batch.ts";
import type { Writer } from "./writer.ts";
import type { WriterThreadData } from "./writer-worker.ts";

const LIMITS = { maxOldGenerationSizeMb: 128, maxYoungGenerationSizeMb: 6, stackSizeMb: 1 };

/**
 * About half of the writes of a hundred concurrent writers. With a lower value the additional commits cost more than
 * the overlap saves (benchmark store.append).
 */
const BURST = 48;

interface Thread {
  worker: Worker;
  waiting: ((result: BatchResult) => void)[];
}

export function createThreadWriter(
  file: string,
  hook: HookModule | undefined,
  log: Logger | undefined,
): Writer {
  let closed = false;
  const start = (): Thread => {
    const workerData: WriterThreadData = { file, hook };
    const worker = new Worker(threadEntry(), { workerData, resourceLimits: LIMITS, name: "store-writer" });
    const thread: Thread = { worker, waiting: [] };
    worker.on("message", (result: BatchResult | null) => {
      if (result !== null) thread.waiting.shift()!(result);
    });
    worker.on("error", (error) => log?.error({ err: error }, "the store's writer thread failed"));
    worker.on("exit", (code) => {
      if (current === thread) current = null;
      if (!closed) log?.warn({ code }, "the store's writer thread exited; the next write starts a new one");
      for (const resolve of thread.waiting.splice(0)) {
        resolve(brokenResult("The store's writer thread exited before it reported a result."));
      }
    });
    return thread;
  };

  let current: Thread | null = start();
  const pack = createPacker();
  return {
    // One batch at a time. A second would be sent with only its first write, so batches would stay small.
    depth: 1,
    burst: BURST,
    run(calls) {
      // A new thread would keep the process alive.
      if (closed) return Promise.resolve(brokenResult("The store is closed."));
      current ??= start();
      const thread = current;
      return new Promise((resolve) => {
        thread.waiting.push(resolve);
        thread.worker.postMessage(pack(calls));
      });
    },
    async close() {
      closed = true;
      if (current === null) return;
      const exited = once(current.worker, "exit");
      current.worker.postMessage(null);
      await exited;
    },
  };
}

function brokenResult(message: string): BatchResult {
  return { values: [], failures: [], broken: { code: "store.unavailable", message } };
}

/** The program is in the same folder as this file, in the sources and in the build. */
function threadEntry(): URL {
  return new URL(
    import.meta.url.endsWith(".ts") ? "./writer-worker.ts" : "./writer-worker.js",
    import.meta.url,
  );
}
