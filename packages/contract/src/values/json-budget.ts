/** How large a value is as JSON, roughly and without making the text of it: who only has a bound to keep needs no more. */
import type { Json } from "./json.ts";

/** What is left of `budget` characters, negative when the value is larger; a number or a word counts as `scalar`. */
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
