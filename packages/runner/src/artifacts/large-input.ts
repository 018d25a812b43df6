/**
 * Input that is large goes into scratch as a file, and the request refers to it. Which part of a body that is, each
 * operation says: a tool's input, a compactor's projection, a harness's trigger; events are small.
 */
import { hash } from "node:crypto";
import { type ArtifactRef, isObject, type Json, type JsonObject, type Op } from "@backplane/contract";

const PLACES: Partial<Record<Op, readonly string[]>> = {
  "tool.invoke": ["input"],
  "compactor.compact": ["source", "projection"],
  "harness.run": ["trigger"],
};

export interface LargeInput {
  file: string;
  bytes: Buffer;
  /** The body with the reference in the place of the value. */
  body: JsonObject;
}

/** Null: the body is small enough to go as it is, which is the usual call. */
export function largeInput(op: Op, body: JsonObject, inline_bytes: number): LargeInput | null {
  const place = PLACES[op];
  const value = place === undefined ? undefined : valueAt(body, place);
  if (place === undefined || value === undefined || !mayExceed(value, inline_bytes)) return null;
  const bytes = Buffer.from(JSON.stringify(value));
  if (bytes.length <= inline_bytes) return null;
  const file = `${place.at(-1)!}.json`;
  const reference: ArtifactRef = {
    transport: "artifact",
    path: file,
    bytes: bytes.length,
    sha256: hash("sha256", bytes, "hex"),
  };
  return { file, bytes, body: replaced(body, place, reference as unknown as JsonObject) };
}

function valueAt(body: JsonObject, place: readonly string[]): Json | undefined {
  let value: Json | undefined = body;
  for (const key of place) {
    if (!isObject(value)) return undefined;
    value = value[key];
  }
  return value;
}

function replaced(body: JsonObject, [key, ...rest]: readonly string[], reference: JsonObject): JsonObject {
  const inner = body[key!] as JsonObject;
  return { ...body, [key!]: rest.length === 0 ? reference : replaced(inner, rest, reference) };
}

/** Cheap for the small input that is the rule, and errs upwards: it stops counting at the limit. */
function mayExceed(value: Json, limit: number): boolean {
  return spend(value, limit) < 0;
}

/** What is left of the budget; a character is at most six bytes in JSON, \u0000. */
function spend(value: Json, budget: number): number {
  if (typeof value === "string") return budget - value.length * 6 - 2;
  if (typeof value !== "object" || value === null) return budget - 25;
  let left = budget - 2;
  if (Array.isArray(value)) {
    for (const item of value) {
      if (left < 0) return left;
      left = spend(item, left - 1);
    }
    return left;
  }
  for (const key in value) {
    if (left < 0) return left;
    left = spend(value[key]!, left - key.length * 6 - 4);
  }
  return left;
}
