/**
 * Runs a batch as one transaction, so its writers share one fsync. A failing operation does not affect the others. The
 * batch first runs without savepoints, since nearly every batch succeeds and a savepoint takes a tenth of the time of a
 * row (benchmark store.append). When an operation fails after it has written, the batch is rolled back and run again
 * with savepoints.
 */
import { failureOf, type Op, type Statement, type StoreFailure } from "../../ops/op.ts";
import { startWrite, type WriteName } from "../../ops/writes.ts";
import type { CommitCounter } from "../connection/commit-counter.ts";
import type { SqliteConnection } from "../connection/connection.ts";
import { damageOf, diskFailureOf, isEnvironmentError } from "../connection/driver-errors.ts";

export interface WriteCall {
  name: WriteName;
  input: unknown;
}

/**
 * values[i] is the result of call i, unless `failures` has an entry for i. If `broken` is set, the batch failed as a
 * whole: nothing was written, unless the writer thread exited after the commit.
 */
export interface BatchResult {
  values: unknown[];
  failures: [index: number, failure: StoreFailure][];
  broken: StoreFailure | null;
}

export function runBatch(
  connection: SqliteConnection,
  calls: readonly WriteCall[],
  counter: CommitCounter | null,
): BatchResult {
  try {
    const { result, wrote } = runWithoutSavepoints(connection, calls) ?? runWithSavepoints(connection, calls);
    // A batch that wrote nothing makes no commit, so it is not counted.
    const counts = wrote && counter !== null;
    if (counts) connection.run(runStatement(counter.next()));
    connection.exec("commit");
    if (counts) counter.recordCommit();
    return result;
  } catch (error) {
    // An error of the file, the disk, a lock or memory ends the batch; its remaining calls are not run.
    rollBack(connection);
    return { ...emptyResult(), broken: damageOf(error) ?? diskFailureOf(error) ?? unavailableFailure(error) };
  }
}

/** Null if a call failed after it had written, and the batch was rolled back. */
function runWithoutSavepoints(
  connection: SqliteConnection,
  calls: readonly WriteCall[],
): BatchAttempt | null {
  const attempt = { result: emptyResult(), wrote: false };
  connection.exec("begin immediate");
  for (const call of calls) {
    if (runCall(connection, call, attempt, false)) continue;
    connection.exec("rollback");
    return null;
  }
  return attempt;
}

function runWithSavepoints(connection: SqliteConnection, calls: readonly WriteCall[]): BatchAttempt {
  const attempt = { result: emptyResult(), wrote: false };
  connection.exec("begin immediate");
  for (const call of calls) {
    connection.exec("savepoint op");
    runCall(connection, call, attempt, true);
    connection.exec("release op");
  }
  return attempt;
}

interface BatchAttempt {
  result: BatchResult;
  /** Whether a statement may have changed data. */
  wrote: boolean;
}

function* runStatement(statement: Statement): Op<void> {
  yield statement;
}

/** False if the call failed after it had written, and there is no savepoint to undo its writes. */
function runCall(
  connection: SqliteConnection,
  call: WriteCall,
  attempt: BatchAttempt,
  savepoint: boolean,
): boolean {
  const wrote = { value: false };
  const { result } = attempt;
  try {
    result.values.push(connection.runTracked(startWrite(call.name, call.input, "sqlite"), wrote) ?? null);
  } catch (error) {
    if (isEnvironmentError(error) || !connection.inTransaction()) throw error;
    // A statement is atomic, so an operation without an earlier write leaves nothing behind.
    if (wrote.value && !savepoint) return false;
    if (savepoint) connection.exec("rollback to op");
    result.failures.push([
      result.values.push(null) - 1,
      failureOf(error) ?? damageOf(error) ?? internalFailure(error),
    ]);
  }
  attempt.wrote ||= wrote.value;
  return true;
}

function emptyResult(): BatchResult {
  return { values: [], failures: [], broken: null };
}

function rollBack(connection: SqliteConnection): void {
  try {
    if (connection.inTransaction()) connection.exec("rollback");
  } catch {
    // SQLite rolls back automatically when an explicit rollback is not possible.
  }
}

function unavailableFailure(error: unknown): StoreFailure {
  const reason = error instanceof Error ? error.message : String(error);
  return { code: "store.unavailable", message: `The store could not write: ${reason}.` };
}

function internalFailure(error: unknown): StoreFailure {
  const reason = error instanceof Error ? error.message : String(error);
  return { code: "internal", message: undefined, details: { reason } };
}
