/**
 * Parses JSON bodies with bounded nesting. A `__proto__` key is rejected, because copying the value could change a
 * prototype. A number that is too large is rejected too: a person must approve exactly what was sent.
 */
import { isUtf8 } from "node:buffer";
import { BackplaneError, WIRE_LIMITS } from "@backplane/contract";

export function parseJsonBody(bytes: Buffer): unknown {
  if (bytes.length === 0) return undefined;
  if (!isUtf8(bytes)) throw invalidBody("The body is not valid UTF-8.");
  let value: unknown;
  try {
    value = JSON.parse(bytes.toString("utf8"));
  } catch (cause) {
    throw invalidBody("The body is not valid JSON.", cause);
  }
  assertSafe(value, 1);
  return value;
}

/** Inspects the parsed value and not the text: long strings cost nothing, and no escape sequence hides a key. */
function assertSafe(value: unknown, depth: number): void {
  // 1e999 is parsed as Infinity, which JSON.stringify writes as null.
  if (typeof value === "number" && !Number.isFinite(value))
    throw invalidBody("The body contains a number that is too large.");
  if (typeof value !== "object" || value === null) return;
  if (depth > WIRE_LIMITS.json_depth)
    throw invalidBody(`The body is nested more than ${WIRE_LIMITS.json_depth} levels deep.`);
  if (Array.isArray(value)) {
    for (const item of value) assertSafe(item, depth + 1);
    return;
  }
  for (const key of Object.keys(value)) {
    if (key === "__proto__") throw invalidBody("The body contains a key named __proto__.");
    assertSafe((value as Record<string, unknown>)[key], depth + 1);
  }
}

function invalidBody(message: string, cause?: unknown): BackplaneError {
  return new BackplaneError("request.invalid", message, {
    details: { issues: [{ path: "body", message }] },
    cause,
  });
}
