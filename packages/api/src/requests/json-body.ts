/**
 * Parses JSON bodies with bounded nesting. A `__proto__` key is rejected, because copying the value could change a
 * prototype. A number that is too large is rejected too: a person must approve exactly what was sent.
 */
import { isUtf8 } from "node:buffer";
import { BackplaneError, WIRE_LIMITS } from "@backplane/contract";

export function parseJsonBody(bytes: Buffer): unknown {
  return parseJsonPart("body", "The body", bytes);
}

/** Parses JSON in another part of the request, such as a header. `path` and `subject` name it in errors. */
export function parseJsonPart(path: string, subject: string, bytes: Buffer): unknown {
  if (bytes.length === 0) return undefined;
  const refuse: Refuse = (problem, cause) => invalidJson(path, `${subject} ${problem}.`, cause);
  if (!isUtf8(bytes)) throw refuse("is not valid UTF-8");
  let value: unknown;
  try {
    value = JSON.parse(bytes.toString("utf8"));
  } catch (cause) {
    throw refuse("is not valid JSON", cause);
  }
  assertSafe(value, 1, refuse);
  return value;
}

type Refuse = (problem: string, cause?: unknown) => BackplaneError;

/** Inspects the parsed value and not the text: long strings cost nothing, and no escape sequence hides a key. */
function assertSafe(value: unknown, depth: number, refuse: Refuse): void {
  // 1e999 is parsed as Infinity, which JSON.stringify writes as null.
  if (typeof value === "number" && !Number.isFinite(value))
    throw refuse("contains a number that is too large");
  if (typeof value !== "object" || value === null) return;
  if (depth > WIRE_LIMITS.json_depth)
    throw refuse(`is nested more than ${WIRE_LIMITS.json_depth} levels deep`);
  if (Array.isArray(value)) {
    for (const item of value) assertSafe(item, depth + 1, refuse);
    return;
  }
  for (const key of Object.keys(value)) {
    if (key === "__proto__") throw refuse("contains a key named __proto__");
    assertSafe((value as Record<string, unknown>)[key], depth + 1, refuse);
  }
}

function invalidJson(path: string, message: string, cause: unknown): BackplaneError {
  return new BackplaneError("request.invalid", message, {
    details: { issues: [{ path, message }] },
    cause,
  });
}
