/** The entry point of the thread that checks a large store. It sends one message, which lists the damage. */
import { parentPort, workerData } from "node:worker_threads";
import { openConnection } from "../connection/connection.ts";
import { type CheckPart, findDamage } from "./check-file.ts";

export interface CheckThreadData {
  file: string;
  parts: readonly CheckPart[];
}

const { file, parts } = workerData as CheckThreadData;
const connection = openConnection(file, "read");
const damage = findDamage(connection.database, parts);
connection.close();
parentPort!.postMessage(damage);
