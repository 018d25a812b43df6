import { type BackplaneError, toBackplaneError } from "@backplane/contract";
import { storeDiskError, toStoreError } from "../backend/store-error.ts";

export const MAX_ATTEMPTS = 10;

/**
 * Serialization failure, deadlock, and the two constraint violations that a race can cause. When the operation runs
 * again, it sees what the other transaction committed.
 */
const CONFLICTS = new Set(["40001", "40P01", "23505", "23503"]);

/** disk_full and io_error of the server. */
const DISK_ERRORS: Readonly<Record<string, "ENOSPC" | "EIO">> = { "53100": "ENOSPC", "58030": "EIO" };

export function isConflict(error: unknown): boolean {
  const code = (error as { code?: unknown } | null)?.code;
  return typeof code === "string" && CONFLICTS.has(code);
}

/**
 * A value that violates the schema is a bug in the gateway (`internal`), and a refusal keeps its code. Any other error
 * means that the database is unavailable.
 */
export function toPostgresError(error: unknown): BackplaneError {
  const code = (error as { code?: unknown } | null)?.code;
  if (typeof code === "string" && /^2[23]\w{3}$/.test(code)) return toBackplaneError(error);
  const disk = DISK_ERRORS[String(code)];
  if (disk !== undefined) return storeDiskError(disk, (error as Error).message, "the PostgreSQL database");
  return toStoreError(error);
}
