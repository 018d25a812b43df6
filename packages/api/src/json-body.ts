/**
 * JSON bodies: bounded in depth, no key that could reach a prototype once someone copies the value, and nothing
 * that would be changed on its way: what a person approves has to be what was sent.
 */
import { isUtf8 } from "node:buffer";
import { BackplaneError, WIRE_LIMITS } from "@backplane/contract";

export function parseJsonBody(bytes: Buffer): unknown {
  if (bytes.length === 0) return undefined;
  if (!isUtf8(bytes)) throw refusal("The body is not valid UTF-8.");
  let value: unknown;
  try {
    value = JSON.parse(bytes.toString("utf8"));
  } catch (cause) {
    throw refusal("The body is not valid JSON.", cause);
  }
  inspect(value, 1);
  return value;
}

/** On the value, not on the text: long strings cost nothing, and no spelling of a key escapes. */
function inspect(value: unknown, depth: number): void {
  // 1e999 would be read as Infinity and written as null.
  if (typeof value === "number" && !Number.isFinite(value))
    throw refusal("The body holds a number that is too large.");
  if (typeof value !== "object" || value === null) return;
  if (depth > WIRE_LIMITS.json_depth)
    throw refusal(`The body is nested more than ${WIRE_LIMITS.json_depth} levels deep.`);
  if (Array.isArray(value)) {
    for (const item of value) inspect(item, depth + 1);
    return;
  }
  for (const key of Object.keys(value)) {
    if (key === "__proto__") throw refusal("The body holds a key named __proto__.");
    inspect((value as Record<string, unknown>)[key], depth + 1);
  }
}

function refusal(message: string, cause?: unknown): BackplaneError {
  return new BackplaneError("request.invalid", message, {
    details: { issues: [{ path: "body", message }] },
    cause,
  });
}
