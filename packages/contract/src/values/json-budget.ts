/** Estimates the size of a value as JSON without serializing it, to enforce a limit. */
import type { Json } from "./json.ts";

/** Returns the rest of `budget` characters, negative if the value is larger; other scalars count as `scalar`. */
export function spendJson(value: Json, budget: number, scalar: number): number {
  if (budget < 0) return budget;
  if (typeof value === "string") return budget - value.length - 2;
  if (typeof value !== "object" || value === null) return budget - scalar;
  let left = budget - 2;
  if (Array.isArray(value)) {
    for (const item of value) {
      left = spendJson(item, left - 1, scalar);
      if (left < 0) return left;
    }
    return left;
  }
  for (const key in value) {
    left = spendJson(value[key]!, left - key.length - 4, scalar);
    if (left < 0) return left;
  }
  return left;
}
