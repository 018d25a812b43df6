import { type BackplaneError, diskFault } from "@backplane/contract";
import { storeDiskError, toStoreError } from "../../backend/store-error.ts";
import { failureOf } from "../../ops/op.ts";
import { damageOf, diskFailureOf } from "./driver-errors.ts";

/** Like `toStoreError`, but recognizes the driver's errors for a damaged file and for a full or failing disk. */
export function toSqliteError(error: unknown): BackplaneError {
  return toStoreError(failureOf(error) ?? damageOf(error) ?? diskFailureOf(error) ?? error);
}

/** A full or failing disk, reported by SQLite or by the operating system; null for any other error. */
export function sqliteDiskFault(error: unknown, place: string): BackplaneError | null {
  const failure = diskFailureOf(error);
  if (failure?.disk === undefined) return diskFault(error, place);
  return storeDiskError(failure.disk, failure.message, place);
}
