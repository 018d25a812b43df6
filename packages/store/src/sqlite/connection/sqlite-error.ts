import type { BackplaneError } from "@backplane/contract";
import { toStoreError } from "../../backend/store-error.ts";
import { failureOf } from "../../ops/op.ts";
import { damageOf } from "./driver-errors.ts";

/** Like `toStoreError`, and reports a driver error that means a damaged file as `store.damaged`. */
export function toSqliteError(error: unknown): BackplaneError {
  return toStoreError(failureOf(error) ?? damageOf(error) ?? error);
}
