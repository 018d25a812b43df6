/**
 * A batch is one transaction: its writers share one fsync. Operations fail alone. The batch first runs without
 * savepoints, since nearly every batch has no failure and each savepoint costs a tenth of a row; when an
 * operation fails after it has written, the batch is rolled back and run again with one savepoint each.
 */
import { type Failure, failureOf } from "../op.ts";
import { startWrite, type WriteName } from "../ops/index.ts";
import type { Connection } from "./connection.ts";

export interface Call {
  name: WriteName;
  input: unknown;
}

/** values[i] answers call i, unless failures names i. `broken`: nothing of the batch was written. */
export interface BatchResult {
  values: unknown[];
  failures: [index: number, failure: Failure][];
  broken: Failure | null;
}

export function runBatch(connection: Connection, calls: readonly Call[]): BatchResult {
  try {
    const result = tryPlain(connection, calls) ?? tryEach(connection, calls);
    connection.exec("commit");
    return result;
  } catch (error) {
    // What the disk refuses ends the batch; the rest of its calls are not even tried.
    abandon(connection);
    return { ...emptyResult(), broken: unavailable(error) };
  }
}

/** Null: a call failed half way, and everything is rolled back. */
function tryPlain(connection: Connection, calls: readonly Call[]): BatchResult | null {
  const result = emptyResult();
  connection.exec("begin immediate");
  for (const call of calls) {
    if (runCall(connection, call, result, false)) continue;
    connection.exec("rollback");
    return null;
  }
  return result;
}

function tryEach(connection: Connection, calls: readonly Call[]): BatchResult {
  const result = emptyResult();
  connection.exec("begin immediate");
  for (const call of calls) {
    connection.exec("savepoint op");
    runCall(connection, call, result, true);
    connection.exec("release op");
  }
  return result;
}

/** False: the call failed half way and, without a savepoint, has left something behind. */
function runCall(connection: Connection, call: Call, result: BatchResult, savepoint: boolean): boolean {
  const wrote = { value: false };
  try {
    result.values.push(connection.runCounting(startWrite(call.name, call.input, "sqlite"), wrote) ?? null);
  } catch (error) {
    if (isDisk(error) || !connection.inTransaction()) throw error;
    // A statement is atomic by itself, so an operation that had written nothing leaves nothing behind.
    if (wrote.value && !savepoint) return false;
    if (savepoint) connection.exec("rollback to op");
    result.failures.push([result.values.push(null) - 1, failureOf(error) ?? internal(error)]);
  }
  return true;
}

function emptyResult(): BatchResult {
  return { values: [], failures: [], broken: null };
}

/** SQLite's primary codes for trouble with the disk or the file: NOMEM, READONLY, IOERR, CORRUPT, FULL, … */
const DISK_CODES = new Set([5, 6, 7, 8, 10, 11, 13, 14, 22, 26]);

function isDisk(error: unknown): boolean {
  const errcode = (error as { errcode?: unknown } | null)?.errcode;
  return typeof errcode === "number" && DISK_CODES.has(errcode & 0xff);
}

function abandon(connection: Connection): void {
  try {
    if (connection.inTransaction()) connection.exec("rollback");
  } catch {
    // SQLite rolls back by itself when it cannot do it on request.
  }
}

function unavailable(error: unknown): Failure {
  const reason = error instanceof Error ? error.message : String(error);
  return { code: "store.unavailable", message: `The store did not take the write: ${reason}.` };
}

function internal(error: unknown): Failure {
  const reason = error instanceof Error ? error.message : String(error);
  return { code: "internal", message: undefined, details: { reason } };
}
