/** Whether a value fits into a number of bytes as JSON. Small values, the usual ones, are not serialized. */
import type { Json } from "@backplane/contract";

export function fitsBytes(value: Json, limit: number): boolean {
  // A character takes at most 6 bytes as JSON (\u0000), so a small count settles it.
  if (atMost(value, Math.floor(limit / 6))) return true;
  return Buffer.byteLength(JSON.stringify(value)) <= limit;
}

function atMost(value: Json, budget: number): boolean {
  return spend(value, budget) >= 0;
}

function spend(value: Json, budget: number): number {
  if (budget < 0) return budget;
  if (typeof value === "string") return budget - value.length - 2;
  if (typeof value !== "object" || value === null) return budget - 24;
  let left = budget - 2;
  if (Array.isArray(value)) {
    for (const item of value) {
      left = spend(item, left - 1);
      if (left < 0) return left;
    }
    return left;
  }
  for (const key in value) {
    left = spend(value[key]!, left - key.length - 4);
    if (left < 0) return left;
  }
  return left;
}
