/**
 * The writer's thread: one or two messages in are a batch, one message out is its result. It loads node:sqlite and
 * the operations, nothing else, because its memory counts against the idle gateway.
 */
import { parentPort, workerData } from "node:worker_threads";
import { openConnection } from "./connection.ts";
import { type HookModule, loadHook } from "./hook.ts";
import { type Packed, unpack } from "./pack.ts";
import { type Batch, createBatch } from "./run-batch.ts";

export interface WriterThreadData {
  file: string;
  hook: HookModule | undefined;
}

export interface WriterMessage extends Packed {
  /** False: the rest of the batch follows. */
  last: boolean;
}

const { file, hook } = workerData as WriterThreadData;
const port = parentPort!;
const connection = openConnection(file, "write", await loadHook(hook));
let batch: Batch | null = null;

port.on("message", (message: WriterMessage | null) => {
  if (message === null) {
    connection.close();
    port.postMessage(null);
    port.close();
    return;
  }
  batch ??= createBatch(connection);
  batch.add(unpack(message));
  if (!message.last) return;
  port.postMessage(batch.commit());
  batch = null;
});
