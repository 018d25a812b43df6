/** Classifies errors of the SQLite driver. The writer thread loads this file, so it imports only types. */
import type { StoreFailure } from "../../ops/op.ts";

/** SQLite's primary codes for a damaged file (CORRUPT) and for a file that is not a database (NOTADB). */
const DAMAGE_CODES = new Set([11, 26]);

/** Returns undefined for any other error. */
export function damageOf(error: unknown): StoreFailure | undefined {
  const { errcode, code, message } = (error ?? {}) as { errcode?: unknown; code?: unknown; message?: string };
  if (typeof errcode === "number" && DAMAGE_CODES.has(errcode & 0xff)) {
    return { code: "store.damaged", message: `The store's file is damaged: SQLite reports "${message}".` };
  }
  // No valid row has a number that JavaScript cannot represent.
  if (code === "ERR_OUT_OF_RANGE") {
    return {
      code: "store.damaged",
      message: "A row of the store is damaged: it contains a number out of range.",
    };
  }
  return undefined;
}

const IOERR = 10;
const FULL = 13;
/** The file is truncated; the disk itself may be intact. */
const IOERR_SHORT_READ = 522;

/** Returns undefined unless the disk is full or failed. */
export function diskFailureOf(error: unknown): StoreFailure | undefined {
  const { errcode, message } = (error ?? {}) as { errcode?: unknown; message?: string };
  const primary = typeof errcode === "number" && errcode !== IOERR_SHORT_READ ? errcode & 0xff : 0;
  if (primary !== FULL && primary !== IOERR) return undefined;
  return { code: "store.unavailable", message, disk: primary === FULL ? "ENOSPC" : "EIO" };
}

/** SQLite's primary codes for errors of the file, the disk, locks or memory: BUSY, LOCKED, NOMEM, READONLY, IOERR, … */
const ENVIRONMENT_CODES = new Set([5, 6, 7, 8, 10, 11, 13, 14, 22, 26]);

export function isEnvironmentError(error: unknown): boolean {
  const errcode = (error as { errcode?: unknown } | null)?.errcode;
  return typeof errcode === "number" && ENVIRONMENT_CODES.has(errcode & 0xff);
}
