/**
 * A batch is one transaction: its writers share one fsync. Operations fail alone. The batch first runs without
 * savepoints, since nearly every batch has no failure and each savepoint costs a tenth of a row; when an
 * operation fails after it has written, the batch is rolled back and run again with one savepoint each.
 */
import { type Failure, failureOf, type Op, type Statement } from "../../ops/op.ts";
import { startWrite, type WriteName } from "../../ops/writes.ts";
import type { CommitCounter } from "../connection/commit-counter.ts";
import type { Connection } from "../connection/connection.ts";
import { damageOf, isDiskError } from "../connection/driver-errors.ts";

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

export function runBatch(
  connection: Connection,
  calls: readonly Call[],
  counter: CommitCounter | null,
): BatchResult {
  try {
    const { result, wrote } = tryPlain(connection, calls) ?? tryEach(connection, calls);
    // A batch that only asked leaves no commit behind, so it is not counted.
    const counts = wrote && counter !== null;
    if (counts) connection.run(once(counter.next()));
    connection.exec("commit");
    if (counts) counter.committed();
    return result;
  } catch (error) {
    // What the disk refuses ends the batch; the rest of its calls are not even tried.
    abandon(connection);
    return { ...emptyResult(), broken: damageOf(error) ?? unavailable(error) };
  }
}

/** Null: a call failed half way, and everything is rolled back. */
function tryPlain(connection: Connection, calls: readonly Call[]): Tried | null {
  const tried = { result: emptyResult(), wrote: false };
  connection.exec("begin immediate");
  for (const call of calls) {
    if (runCall(connection, call, tried, false)) continue;
    connection.exec("rollback");
    return null;
  }
  return tried;
}

function tryEach(connection: Connection, calls: readonly Call[]): Tried {
  const tried = { result: emptyResult(), wrote: false };
  connection.exec("begin immediate");
  for (const call of calls) {
    connection.exec("savepoint op");
    runCall(connection, call, tried, true);
    connection.exec("release op");
  }
  return tried;
}

interface Tried {
  result: BatchResult;
  /** A statement may have changed something. */
  wrote: boolean;
}

function* once(statement: Statement): Op<void> {
  yield statement;
}

/** False: the call failed half way and, without a savepoint, has left something behind. */
function runCall(connection: Connection, call: Call, tried: Tried, savepoint: boolean): boolean {
  const wrote = { value: false };
  const { result } = tried;
  try {
    result.values.push(connection.runCounting(startWrite(call.name, call.input, "sqlite"), wrote) ?? null);
  } catch (error) {
    if (isDiskError(error) || !connection.inTransaction()) throw error;
    // A statement is atomic by itself, so an operation that had written nothing leaves nothing behind.
    if (wrote.value && !savepoint) return false;
    if (savepoint) connection.exec("rollback to op");
    result.failures.push([
      result.values.push(null) - 1,
      failureOf(error) ?? damageOf(error) ?? internal(error),
    ]);
  }
  tried.wrote ||= wrote.value;
  return true;
}

function emptyResult(): BatchResult {
  return { values: [], failures: [], broken: null };
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
