/** Estimates the size of a value as JSON without serializing it, to enforce a limit. */
import type { Json } from "./json.ts";

/**
 * Returns how many of `budget` characters are left after the value, negative if the value is larger. Numbers, booleans
 * and null count as `scalar` characters.
 */
export function remainingJsonBudget(value: Json, budget: number, scalar: number): number {
  if (budget < 0) return budget;
  if (typeof value === "string") return budget - value.length - 2;
  if (typeof value !== "object" || value === null) return budget - scalar;
  let remaining = budget - 2;
  if (Array.isArray(value)) {
    for (const item of value) {
      remaining = remainingJsonBudget(item, remaining - 1, scalar);
      if (remaining < 0) return remaining;
    }
    return remaining;
  }
  for (const key in value) {
    remaining = remainingJsonBudget(value[key]!, remaining - key.length - 4, scalar);
    if (remaining < 0) return remaining;
  }
  return remaining;
}
