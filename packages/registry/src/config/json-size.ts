/**
 * Checks the size of a value as JSON. Small values, which are the vast majority, are not serialized (benchmark
 * http.invoke).
 */
import { type Json, remainingJsonBudget } from "@backplane/contract";

/** The length of the longest number in JSON. */
const MAX_SCALAR_LENGTH = 24;

export function fitsBytes(value: Json, max_bytes: number): boolean {
  // A character takes at most 6 bytes in JSON (\u0000), so a value of at most max_bytes / 6 characters fits.
  if (remainingJsonBudget(value, Math.floor(max_bytes / 6), MAX_SCALAR_LENGTH) >= 0) return true;
  return Buffer.byteLength(JSON.stringify(value)) <= max_bytes;
}
