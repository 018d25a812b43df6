/**
 * Validates values against schemas of plugins in the browser. The schemas are interpreted, because the content security
 * policy refuses code that is compiled from text. Patterns are left to the gateway, which matches them in linear time:
 * a pattern of a hostile plugin could otherwise freeze the tab. The gateway validates everything again.
 */
import { isObject, type Json, type JsonObject } from "@backplane/contract";
import { type Schema, Validator } from "@cfworker/json-schema";

export interface SchemaProblem {
  /** The path to the value: `["servers", "0", "port"]`. */
  path: string[];
  message: string;
}

/** Keywords that only repeat the problems of the schemas inside them. */
const CONTAINERS = new Set([
  "$ref",
  "$dynamicRef",
  "$recursiveRef",
  "allOf",
  "contains",
  "dependentSchemas",
  "else",
  "if",
  "items",
  "prefixItems",
  "properties",
  "then",
]);
const ROOT = "https://schema.invalid/root";

/** Returns each problem once, with the path of the invalid value. */
export function schemaProblems(schema: JsonObject, value: Json): SchemaProblem[] {
  const { errors } = new Validator(withoutPatterns(schema), draftOf(schema), false).validate(value);
  const problems = errors.filter(({ keyword }) => !CONTAINERS.has(keyword)).map(toProblem);
  return [...new Map(problems.map((problem) => [JSON.stringify(problem), problem])).values()];
}

/** Whether the value matches one option of a schema, whose references are relative to the whole schema. */
export function matchesOption(option: JsonObject, value: Json, root: JsonObject): boolean {
  try {
    const validator = new Validator(withoutPatterns(absoluteRefs(option) as JsonObject), draftOf(root), true);
    validator.addSchema({ ...withoutPatterns(root), $id: ROOT });
    return validator.validate(value).valid;
  } catch {
    // A reference cannot be resolved. The option then matches nothing, and the form shows the first option.
    return false;
  }
}

function toProblem({
  keyword,
  instanceLocation,
  error,
}: {
  keyword: string;
  instanceLocation: string;
  error: string;
}) {
  const path = instanceLocation
    .split("/")
    .slice(1)
    .map((part) => decodeURIComponent(part).replaceAll("~1", "/").replaceAll("~0", "~"));
  const missing = keyword === "required" ? /required property "(.*)"/.exec(error)?.[1] : undefined;
  return missing === undefined
    ? { path, message: error }
    : { path: [...path, missing], message: "This field is required." };
}

function draftOf({ $schema }: JsonObject): "7" | "2020-12" {
  return typeof $schema === "string" && $schema.includes("draft-07") ? "7" : "2020-12";
}

/** Removes patterns, and `additionalProperties` where it depends on a pattern. */
function withoutPatterns(schema: JsonObject): Schema {
  return mapSchemas(schema, ({ pattern: _pattern, patternProperties, ...rest }) => {
    if (patternProperties !== undefined) delete rest.additionalProperties;
    return rest;
  }) as Schema;
}

function absoluteRefs(schema: JsonObject): Json {
  return mapSchemas(schema, (one) => {
    const ref = one.$ref;
    return typeof ref === "string" && ref.startsWith("#") ? { ...one, $ref: `${ROOT}${ref}` } : one;
  });
}

/** Keywords whose value is data and not a schema. */
const DATA = new Set(["const", "default", "enum", "examples", "required"]);
/** Keywords whose value maps names to schemas: a name is not a keyword. */
const MAPS = new Set(["$defs", "definitions", "dependentSchemas", "patternProperties", "properties"]);

export function mapSchemas(schema: Json, change: (schema: JsonObject) => JsonObject): Json {
  if (Array.isArray(schema)) return schema.map((item) => mapSchemas(item, change));
  if (!isObject(schema)) return schema;
  const mapped_keywords = Object.entries(schema as JsonObject).map(([keyword, value]) => {
    if (DATA.has(keyword)) return [keyword, value];
    if (!MAPS.has(keyword) || !isObject(value)) return [keyword, mapSchemas(value, change)];
    const mapped_schemas = Object.entries(value as JsonObject).map(([name, one]) => [
      name,
      mapSchemas(one, change),
    ]);
    return [keyword, Object.fromEntries(mapped_schemas)];
  });
  return change(Object.fromEntries(mapped_keywords) as JsonObject);
}
