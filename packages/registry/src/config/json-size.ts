/** Whether a value fits into a number of bytes as JSON. Small values, the usual ones, are not serialized. */
import { type Json, spendJson } from "@backplane/contract";

/** The longest number that JSON spells. */
const LONGEST_SCALAR = 24;

export function fitsBytes(value: Json, limit: number): boolean {
  // A character takes at most 6 bytes as JSON (\u0000), so a small count settles it.
  if (spendJson(value, Math.floor(limit / 6), LONGEST_SCALAR) >= 0) return true;
  return Buffer.byteLength(JSON.stringify(value)) <= limit;
}
