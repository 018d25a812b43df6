/**
 * The entry point of the writer thread. It receives batches and sends back the result of each. It loads little more
 * than node:sqlite and the operations, because its memory counts against the idle gateway (benchmark boot.rss).
 */
import { parentPort, workerData } from "node:worker_threads";
import { createCommitCounter } from "../connection/commit-counter.ts";
import { type HookModule, loadHook, openConnection } from "../connection/connection.ts";
import { type PackedBatch, unpackBatch } from "./pack-batch.ts";
import { runBatch } from "./run-batch.ts";

export interface WriterThreadData {
  file: string;
  hook: HookModule | undefined;
}

const { file, hook } = workerData as WriterThreadData;
const port = parentPort!;
const connection = openConnection(file, "write", await loadHook(hook));
connection.enableRowChecks();
const counter = createCommitCounter(connection, file);

port.on("message", (message: PackedBatch | null) => {
  if (message === null) {
    connection.close();
    counter?.close();
    port.postMessage(null);
    port.close();
    return;
  }
  port.postMessage(runBatch(connection, unpackBatch(message), counter));
});
