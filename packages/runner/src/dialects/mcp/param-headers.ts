/**
 * Arguments that are repeated as headers (`x-mcp-header`, revision 2026-07-28 over HTTP), so that proxies can route
 * by them. Only scalar values at fixed paths of the schema are supported; a tool that declares them in any other
 * way is left out.
 */
import { isObject, type Json, type JsonObject, type ManifestToolExport } from "@backplane/contract";
import { encodeHeaderValue } from "./http-headers.ts";

export type ParamHeaders = NonNullable<ManifestToolExport["tool"]["param_headers"]>;

const MARK = "x-mcp-header";
const NAME = /^[A-Za-z0-9!#$%&'*+.^_`|~-]{1,64}$/;
const SCALAR_TYPES: ReadonlySet<Json | undefined> = new Set<Json | undefined>([
  "string",
  "integer",
  "boolean",
]);
const MAX_HEADERS = 64;

/** Returns a description of the problem if the schema is invalid. */
export function readParamHeaders(schema: JsonObject): ParamHeaders | string {
  const headers: ParamHeaders = [];
  let marks = 0;
  const countMarks = (value: Json, is_schema: boolean): void => {
    if (Array.isArray(value)) for (const child of value) countMarks(child, true);
    else if (isObject(value)) {
      if (is_schema && MARK in value) marks++;
      for (const [key, child] of Object.entries(value)) countMarks(child, key !== "properties" || !is_schema);
    }
  };
  const walk = (schema: JsonObject, path: string[]): string | null => {
    if (!isObject(schema.properties)) return null;
    for (const [key, value] of Object.entries(schema.properties)) {
      if (!isObject(value)) continue;
      const value_path = [...path, key];
      if (MARK in value) {
        const header = value[MARK];
        if (typeof header !== "string" || !NAME.test(header))
          return `the ${MARK} of ${key} is not a valid header name`;
        if (!SCALAR_TYPES.has(value.type))
          return `${key} has an ${MARK} but is not a string, integer or boolean`;
        if (headers.some((other) => other.header.toLowerCase() === header.toLowerCase()))
          return `two arguments have the ${MARK} ${header}`;
        headers.push({ header, path: value_path });
      }
      const problem = walk(value, value_path);
      if (problem !== null) return problem;
    }
    return null;
  };
  const problem = walk(schema, []);
  if (problem !== null) return problem;
  countMarks(schema, true);
  // Inside lists and alternatives the argument is ambiguous.
  if (marks !== headers.length) return `an ${MARK} is at a position that is not a single argument`;
  return headers.length > MAX_HEADERS ? `it has more than ${MAX_HEADERS} arguments with an ${MARK}` : headers;
}

export function paramHeaders(declared: ParamHeaders, input: JsonObject): Record<string, string> {
  const headers: Record<string, string> = {};
  for (const { header, path } of declared) {
    let value: Json | undefined = input;
    for (const key of path) value = isObject(value) && Object.hasOwn(value, key) ? value[key] : undefined;
    if (typeof value !== "string" && typeof value !== "number" && typeof value !== "boolean") continue;
    headers[`mcp-param-${header.toLowerCase()}`] = value === "" ? "" : encodeHeaderValue(String(value));
  }
  return headers;
}
