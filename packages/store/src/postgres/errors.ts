import { type BackplaneError, toBackplaneError } from "@backplane/contract";
import { toStoreError } from "../backend/store-error.ts";

export const MAX_ATTEMPTS = 10;

/**
 * Serialization failure, deadlock, and the two constraint violations that a race can cause. When the operation runs again
 * it sees what the other one committed.
 */
const CONFLICTS = new Set(["40001", "40P01", "23505", "23503"]);

export function isConflict(error: unknown): boolean {
  const code = (error as { code?: unknown } | null)?.code;
  return typeof code === "string" && CONFLICTS.has(code);
}

/** A row that violates the schema is a bug of ours (`internal`); other errors mean that the database is unavailable. */
export function toPostgresError(error: unknown): BackplaneError {
  const code = (error as { code?: unknown } | null)?.code;
  if (typeof code === "string" && /^2[23]\w{3}$/.test(code)) return toBackplaneError(error);
  return toStoreError(error);
}
