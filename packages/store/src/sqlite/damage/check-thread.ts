/** The entry of the thread that checks a large store. It sends one message with the damage. */
import { parentPort, workerData } from "node:worker_threads";
import { openConnection } from "../connection/connection.ts";
import { type CheckPart, findDamage } from "./check-file.ts";

export interface CheckThreadData {
  file: string;
  parts: readonly CheckPart[];
}

const { file, parts } = workerData as CheckThreadData;
const connection = openConnection(file, "read");
const found = findDamage(connection.database, parts);
connection.close();
parentPort!.postMessage(found);
