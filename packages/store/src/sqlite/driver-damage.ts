/** Errors of the driver that mean a damaged file. The writer's thread loads this too: no import of another room. */
import type { Failure } from "../op.ts";

/** SQLite's primary codes for a file that is damaged (CORRUPT) or not one of its files (NOTADB). */
const DAMAGE_CODES = new Set([11, 26]);

/** Undefined for any other error. */
export function damageOf(error: unknown): Failure | undefined {
  const { errcode, code, message } = (error ?? {}) as { errcode?: unknown; code?: unknown; message?: string };
  if (typeof errcode === "number" && DAMAGE_CODES.has(errcode & 0xff)) {
    return { code: "store.damaged", message: `The store's file is damaged: SQLite says "${message}".` };
  }
  // No row of ours holds a number that JavaScript cannot.
  if (code === "ERR_OUT_OF_RANGE") {
    return {
      code: "store.damaged",
      message: "A row of the store is damaged: it holds a number out of range.",
    };
  }
  return undefined;
}
