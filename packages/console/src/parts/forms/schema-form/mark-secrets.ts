/**
 * Gives the fields of a schema that hold a secret the format `password`, for which the form shows a password field:
 * those that the schema declares with `writeOnly`, and with `by_name` also those whose name indicates a secret.
 */
import { isObject, isSecretConfigKey, type Json, type JsonObject } from "@backplane/contract";
import { mapSchemas } from "./validate-schema.ts";

const NOT_TEXT = new Set(["array", "boolean", "integer", "null", "number", "object"]);
const COMBINATIONS = ["allOf", "anyOf", "oneOf"] as const;

export function markSecrets(schema: JsonObject, by_name: boolean): JsonObject {
  return mapSchemas(schema, (one) => {
    const marked = (one.writeOnly === true ? asPassword(one) : one) as JsonObject;
    if (!by_name || !isObject(marked.properties)) return marked;
    const properties = Object.entries(marked.properties as JsonObject).map(([name, field]) => [
      name,
      isSecretConfigKey(name) ? asPassword(field) : field,
    ]);
    return { ...marked, properties: Object.fromEntries(properties) as JsonObject };
  }) as JsonObject;
}

/** A reference gets the format too, because the form merges it with what it refers to. */
function asPassword(schema: Json): Json {
  if (!isObject(schema)) return schema;
  const field = schema as JsonObject;
  const { type, enum: choices, const: constant } = field;
  if (choices !== undefined || constant !== undefined) return field;
  const types = Array.isArray(type) ? type : [type];
  if (types.every((name) => typeof name === "string" && NOT_TEXT.has(name))) return field;
  const combined = COMBINATIONS.flatMap((keyword) => {
    const options = field[keyword];
    return Array.isArray(options) ? [[keyword, options.map(asPassword)] as const] : [];
  });
  return { ...field, format: "password", ...Object.fromEntries(combined) };
}
