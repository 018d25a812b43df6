/** Checks a large store beside the work: one message out is what it found. */
import { parentPort, workerData } from "node:worker_threads";
import { openConnection } from "../connection/connection.ts";
import { findDamage } from "./check-file.ts";

export interface CheckThreadData {
  file: string;
}

const { file } = workerData as CheckThreadData;
const connection = openConnection(file, "read");
const found = findDamage(connection.database);
connection.close();
parentPort!.postMessage(found);
