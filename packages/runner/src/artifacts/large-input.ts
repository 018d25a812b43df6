/**
 * Replaces large input in the body of a request with a reference to a file, which the caller creates in the scratch
 * folder. The operation determines which part of the body may be large: the input of a tool, the projection of a
 * compactor or the trigger of a harness. Events are always small.
 */
import { hash } from "node:crypto";
import {
  type ArtifactRef,
  type ExportOp,
  isObject,
  type Json,
  type JsonObject,
  remainingJsonBudget,
} from "@backplane/contract";

const LARGE_FIELDS: Partial<Record<ExportOp, readonly string[]>> = {
  "tool.invoke": ["input"],
  "compactor.compact": ["source", "projection"],
  "harness.run": ["trigger"],
};

export interface LargeInput {
  file: string;
  bytes: Buffer;
  /** The body with a reference instead of the value. */
  body: JsonObject;
}

/** Null if the whole body can be sent inline, which is the usual case. */
export function extractLargeInput(op: ExportOp, body: JsonObject, inline_bytes: number): LargeInput | null {
  const path = LARGE_FIELDS[op];
  const value = path === undefined ? undefined : valueAt(body, path);
  if (path === undefined || value === undefined || !mayExceed(value, inline_bytes)) return null;
  const bytes = Buffer.from(JSON.stringify(value));
  if (bytes.length <= inline_bytes) return null;
  const file = `${path.at(-1)!}.json`;
  const reference: ArtifactRef = {
    transport: "artifact",
    path: file,
    bytes: bytes.length,
    sha256: hash("sha256", bytes, "hex"),
  };
  return { file, bytes, body: replaceAt(body, path, reference as unknown as JsonObject) };
}

function valueAt(body: JsonObject, path: readonly string[]): Json | undefined {
  let value: Json | undefined = body;
  for (const key of path) {
    if (!isObject(value)) return undefined;
    value = value[key];
  }
  return value;
}

function replaceAt(body: JsonObject, [key, ...rest]: readonly string[], reference: JsonObject): JsonObject {
  const inner = body[key!] as JsonObject;
  return { ...body, [key!]: rest.length === 0 ? reference : replaceAt(inner, rest, reference) };
}

/**
 * A cheap estimate that never underestimates: a character takes at most six bytes in JSON (\u0000), a number at most
 * 30.
 */
function mayExceed(value: Json, limit: number): boolean {
  return remainingJsonBudget(value, limit / 6, 5) < 0;
}
