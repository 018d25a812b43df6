/**
 * Parses the bytes of a frame. Stricter than JSON.parse: bytes must be UTF-8, strings well formed, nesting bounded, and
 * no key may reach a prototype (wire.frame.bad-json). Parsing itself never changes a prototype, because JSON.parse
 * creates own properties.
 */
import { isUtf8 } from "node:buffer";
import { BackplaneError, type Json, type JsonObject } from "@backplane/contract";

export function parseFrame(body: Buffer, depth: number): JsonObject {
  const value = parseJson(body, depth);
  if (typeof value !== "object" || value === null || Array.isArray(value)) {
    throw invalidFrame("a frame must be a JSON object", body);
  }
  return value;
}

export function parseJson(body: Buffer, depth: number): Json {
  const text = body.toString();
  // Decoding replaces invalid UTF-8 with U+FFFD, so text without U+FFFD was valid.
  if (text.includes("\ufffd") && !isUtf8(body)) throw invalidFrame("a frame must be UTF-8", body);
  let value: Json;
  try {
    value = JSON.parse(text) as Json;
  } catch {
    throw invalidFrame("a frame must be JSON", body);
  }
  // Without an escape, strings are well formed if the bytes are valid UTF-8.
  const problem = checkJson(value, depth, text.includes("\\"));
  if (problem !== undefined) throw invalidFrame(problem, body, responseIdOf(value));
  return value;
}

/** Describes the problem with a parsed value, or returns undefined. Scans strings only if `escaped` is true. */
function checkJson(value: Json, depth: number, escaped: boolean): string | undefined {
  if (typeof value === "string") {
    return escaped && !value.isWellFormed() ? "a string has a lone surrogate" : undefined;
  }
  if (typeof value !== "object" || value === null) return undefined;
  if (depth === 0) return "JSON is nested too deeply";
  if (Array.isArray(value)) {
    for (let i = 0; i < value.length; i++) {
      const problem = checkJson(value[i]!, depth - 1, escaped);
      if (problem !== undefined) return problem;
    }
    return undefined;
  }
  for (const key in value) {
    if (key === "__proto__") return "a key must not be __proto__";
    if (key === "constructor" && reachesPrototype(value[key]!)) return "a key must not reach a prototype";
    if (escaped && !key.isWellFormed()) return "a key has a lone surrogate";
    const problem = checkJson(value[key]!, depth - 1, escaped);
    if (problem !== undefined) return problem;
  }
  return undefined;
}

/** Data may use the key `constructor`; `constructor.prototype` is an attack on unsafe merges. */
function reachesPrototype(value: Json): boolean {
  return typeof value === "object" && value !== null && Object.hasOwn(value, "prototype");
}

/** Returns the id if the value looks like a JSON-RPC response, so that the call of a rejected response can fail. */
function responseIdOf(value: Json): number | undefined {
  if (typeof value !== "object" || value === null || Array.isArray(value)) return undefined;
  return value.method === undefined && typeof value.id === "number" ? value.id : undefined;
}

export function invalidFrame(problem: string, bytes: Uint8Array, rpc_id?: number): BackplaneError {
  return new BackplaneError("frame_invalid", `A frame could not be decoded: ${problem}.`, {
    details: { stray_output: previewBytes(bytes), ...(rpc_id === undefined ? {} : { rpc_id }) },
  });
}

const PREVIEW_CHARS = 200;

/** The start of the received bytes as printable text, for messages about a plugin that prints to stdout. */
export function previewBytes(bytes: Uint8Array): string {
  const text = Buffer.from(
    bytes.buffer,
    bytes.byteOffset,
    Math.min(bytes.length, PREVIEW_CHARS * 4),
  ).toString();
  return text
    .replace(/\p{C}/gu, (character) => (character === "\n" || character === "\t" ? " " : ""))
    .slice(0, PREVIEW_CHARS)
    .toWellFormed()
    .trim();
}
