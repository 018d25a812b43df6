/**
 * Relaxes the input schemas of servers that validate their input themselves. Schema generators such as zod 4 describe
 * the parsed value, in which a property with a default is always present. They list such a property as required,
 * although the server accepts input without it and fills in the default.
 */
import { isObject, mapMaybe } from "@backplane/contract";
import type { SchemaCheck } from "@backplane/ports";

/** Keywords that hold one schema, a list of schemas or a map of schemas. */
const SINGLE_SCHEMA_KEYWORDS = [
  "items",
  "additionalProperties",
  "then",
  "else",
  "unevaluatedProperties",
] as const;
const LIST_KEYWORDS = ["allOf", "anyOf", "oneOf", "prefixItems"] as const;
const MAP_KEYWORDS = ["properties", "patternProperties", "$defs", "definitions", "dependentSchemas"] as const;

/** Returns the schema without the `required` entries of properties that have a default; null if there are none. */
export function withOptionalDefaults(schema: unknown): unknown {
  const relaxed = relax(schema);
  return relaxed === schema ? null : relaxed;
}

/**
 * Accepts what either check accepts. The strict one comes first: in a `oneOf`, input that matches one branch of the
 * schema can match two of the relaxed schema.
 */
export function acceptEither(strict: SchemaCheck, relaxed: SchemaCheck): SchemaCheck {
  return (value) => mapMaybe(strict(value), (issues) => (issues.length === 0 ? issues : relaxed(value)));
}

/**
 * Returns the same object if nothing changes. `not` and `if` are left unchanged, because relaxing them could refuse
 * input.
 */
function relax(schema: unknown): unknown {
  if (!isObject(schema)) return schema;
  const changed: Record<string, unknown> = {};
  const set = (keyword: string, value: unknown) => {
    if (value !== schema[keyword]) changed[keyword] = value;
  };
  for (const keyword of SINGLE_SCHEMA_KEYWORDS) set(keyword, relax(schema[keyword]));
  for (const keyword of LIST_KEYWORDS) set(keyword, relaxList(schema[keyword]));
  for (const keyword of MAP_KEYWORDS) set(keyword, relaxMap(schema[keyword]));
  const { properties, required } = schema;
  if (Array.isArray(required) && isObject(properties)) {
    const still_required = required.filter((name) => !hasDefault(properties, name));
    if (still_required.length < required.length) changed.required = still_required;
  }
  return Object.keys(changed).length === 0 ? schema : { ...schema, ...changed };
}

function relaxList(list: unknown): unknown {
  if (!Array.isArray(list)) return list;
  const relaxed = list.map(relax);
  return relaxed.some((item, index) => item !== list[index]) ? relaxed : list;
}

function relaxMap(map: unknown): unknown {
  if (!isObject(map)) return map;
  const relaxed = Object.entries(map).map(([name, item]) => [name, relax(item)] as const);
  return relaxed.some(([name, item]) => item !== map[name]) ? Object.fromEntries(relaxed) : map;
}

function hasDefault(properties: Record<string, unknown>, name: unknown): boolean {
  if (typeof name !== "string" || !Object.hasOwn(properties, name)) return false;
  const property = properties[name];
  return isObject(property) && Object.hasOwn(property, "default");
}
