/**
 * The writer's thread: one message in is a batch, one message out is its result. It loads node:sqlite and
 * the operations, nothing else, because its memory counts against the idle gateway.
 */
import { parentPort, workerData } from "node:worker_threads";
import { createCommitCounter } from "../connection/commit-counter.ts";
import { type HookModule, loadHook, openConnection } from "../connection/connection.ts";
import { type Packed, unpack } from "./pack-batch.ts";
import { runBatch } from "./run-batch.ts";

export interface WriterThreadData {
  file: string;
  hook: HookModule | undefined;
}

const { file, hook } = workerData as WriterThreadData;
const port = parentPort!;
const connection = openConnection(file, "write", await loadHook(hook));
connection.guardRows();
const counter = createCommitCounter(connection, file);

port.on("message", (message: Packed | null) => {
  if (message === null) {
    connection.close();
    counter?.close();
    port.postMessage(null);
    port.close();
    return;
  }
  port.postMessage(runBatch(connection, unpack(message), counter));
});
