/** Limits of a schema that are checked before it is compiled. */
import { BackplaneError, isObject } from "@backplane/contract";

const MAX_BYTES = 256 * 1024;
const MAX_DEPTH = 64;
const MAX_REFS = 500;
const MAX_NODES = 50_000;

/** Returns the schema as text. Throws `package.schema`. */
export function serializeWithinLimits(schema: unknown): string {
  if (typeof schema !== "boolean" && !isObject(schema)) {
    throw schemaError("a schema must be an object, true or false");
  }
  const count = { nodes: 0, refs: 0 };
  walk(schema, 1, count);
  const text = JSON.stringify(schema);
  if (Buffer.byteLength(text) > MAX_BYTES) throw schemaError(`it is larger than ${MAX_BYTES / 1024} KiB`);
  checkDialect(schema);
  return text;
}

export function schemaError(reason: string, cause?: unknown): BackplaneError {
  return new BackplaneError("package.schema", `The schema cannot be used: ${reason}.`, {
    details: { why: reason },
    ...(cause === undefined ? {} : { cause }),
  });
}

function checkDialect(schema: unknown): void {
  if (typeof schema !== "object" || schema === null || !Object.hasOwn(schema, "$schema")) return;
  const dialect = (schema as { $schema: unknown }).$schema;
  const known = /^https?:\/\/json-schema\.org\/(draft\/2020-12|draft-07)\/schema#?$/;
  if (typeof dialect === "string" && known.test(dialect)) return;
  throw schemaError(
    `$schema is ${JSON.stringify(dialect)?.slice(0, 120)}; write "https://json-schema.org/draft/2020-12/schema" or "http://json-schema.org/draft-07/schema#"`,
  );
}

function walk(value: unknown, depth: number, count: { nodes: number; refs: number }): void {
  if (++count.nodes > MAX_NODES) throw schemaError(`it has more than ${MAX_NODES} values`);
  if (typeof value !== "object" || value === null) return;
  if (depth > MAX_DEPTH) throw schemaError(`it is nested deeper than ${MAX_DEPTH} levels`);
  if (Array.isArray(value)) {
    for (const item of value) walk(item, depth + 1, count);
    return;
  }
  for (const [key, item] of Object.entries(value)) {
    if (
      /^\$(ref|dynamicRef|recursiveRef)$/.test(key) &&
      typeof item === "string" &&
      ++count.refs > MAX_REFS
    ) {
      throw schemaError(`it has more than ${MAX_REFS} references`);
    }
    if (key === "$async") throw schemaError("$async is not part of JSON Schema; remove it");
    walk(item, depth + 1, count);
  }
}
