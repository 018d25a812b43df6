/** Turns a schema issue into sentences of the form "WHERE is WHAT; write THIS". */
import { EXPORT_KINDS, isObject, isRemoteProtocol, PROTOCOLS, type Protocol } from "@backplane/contract";
import type { ManifestSchema } from "@backplane/contract/schema";
import { fieldsAt, mostSimilar, tableDefining } from "./known-fields.ts";
import { pathText, type TomlPath } from "./toml-lines.ts";

type SchemaIssue = NonNullable<ReturnType<typeof ManifestSchema.safeParse>["error"]>["issues"][number];

export interface Finding {
  path: TomlPath;
  message: string;
}

/** The correction for a missing field. */
const WHEN_MISSING: Record<string, string> = {
  api_version: 'write api_version = "vai.plugin.v1"',
  package_id: 'write package_id = "publisher/name", such as "acme/devkit"',
  version: 'write version = "0.1.0"',
  name: 'write name = "…", the display name',
  runtime: "write a [runtime] table with protocol and entrypoint",
  entrypoint: 'write entrypoint = ["./bin/plugin"]',
  exports: "write at least one [[exports]] table",
  id: 'write id = "my_tool"',
  tool: "write an [exports.tool] table",
  hook: 'write an [exports.hook] table with subscribes_to = ["run.completed"]',
  subscribes_to: 'write subscribes_to = ["run.completed"]',
  compactor: "write an [exports.compactor] table",
  harness: "write an [exports.harness] table",
};

const TYPE_DESCRIPTIONS: Record<string, string> = {
  string: 'a string in quotes, such as "…"',
  boolean: "true or false",
  number: "a number",
  int: "a whole number",
  array: "a list, such as [ … ]",
  object: "a table",
  record: "a table",
};

export function explainIssue(issue: SchemaIssue, manifest: unknown): Finding[] {
  const path = issue.path.filter((part) => typeof part !== "symbol");
  if (issue.code === "unrecognized_keys") {
    return issue.keys.map((key) => ({ path: [...path, key], message: explainUnknown(path, key, manifest) }));
  }
  if (issue.code === "custom" && path.length === 1 && path[0] === "exports") {
    const repeated = repeatedIds(manifest);
    if (repeated.length > 0) return repeated;
    return [{ path, message: `${describeValue(path, manifest)}; ${WHEN_MISSING.exports}` }];
  }
  if (issue.code === "invalid_key") return [{ path, message: explainKey(path, issue.issues[0]?.message) }];
  return [{ path, message: `${describeValue(path, manifest)}; ${describeFix(issue, path, manifest)}` }];
}

/** The last part of the path is a key that its table does not accept; the value of the key is not the problem. */
function explainKey(path: TomlPath, rule = "write another name"): string {
  const table = pathText(path.slice(0, -1));
  const noun = table === "runtime.env" ? "a variable named" : "the key";
  return `${table} has ${noun} ${JSON.stringify(path.at(-1))}; ${rule}`;
}

/** The only transport that packages of this protocol can use. */
export function transportOf(protocol: Protocol): "stdio" | "http" {
  return isRemoteProtocol(protocol) ? "http" : "stdio";
}

/** `runtime.os is "bsd"` or `runtime.os is missing`. */
export function describeValue(path: TomlPath, manifest: unknown): string {
  const value = valueAt(path, manifest);
  return `${pathText(path)} is ${value === undefined ? "missing" : shortValue(value)}`;
}

function whenMissing(field: string, manifest: unknown): string {
  const protocol = protocolOf(manifest);
  if (field === "entrypoint" && protocol !== undefined && isRemoteProtocol(protocol))
    return 'write entrypoint = ["https://host/mcp"], the URL of the server';
  return WHEN_MISSING[field] ?? "write it";
}

function describeFix(issue: SchemaIssue, path: TomlPath, manifest: unknown): string {
  if (issue.code === "invalid_value") return oneOf(usableValues(issue.values.map(String), path, manifest));
  if (issue.code === "invalid_union") return oneOf(usableValues(EXPORT_KINDS, path, manifest));
  if (valueAt(path, manifest) === undefined) {
    return whenMissing(String(path.at(-1)), manifest);
  }
  if (issue.code === "invalid_type") return `write ${TYPE_DESCRIPTIONS[issue.expected] ?? issue.expected}`;
  if (issue.code === "too_big") return `write at most ${String(issue.maximum)}${unitOf(issue.origin)}`;
  if (issue.code === "too_small" && /^(Too small|Invalid)/.test(issue.message)) {
    return `write at least ${String(issue.minimum)}${unitOf(issue.origin)}`;
  }
  return issue.message;
}

/** The values that the manifest's protocol accepts. The schema lists those of all protocols. */
function usableValues(values: readonly string[], path: TomlPath, manifest: unknown): readonly string[] {
  const protocol = protocolOf(manifest);
  if (protocol === undefined) return values;
  if (pathText(path) === "runtime.transport") return [transportOf(protocol)];
  return protocol === "rterm.plugin.v1" && isExportKind(path) ? ["tool"] : values;
}

function isExportKind(path: TomlPath): boolean {
  return path.length === 3 && path[0] === "exports" && path[2] === "kind";
}

function protocolOf(manifest: unknown): Protocol | undefined {
  const stated = valueAt(["runtime", "protocol"], manifest);
  return PROTOCOLS.find((known) => known === stated);
}

function unitOf(origin: string): string {
  if (origin === "string") return " characters";
  return origin === "array" ? " values" : "";
}

function oneOf(values: readonly string[]): string {
  return values.length === 1 ? `write "${values[0]}"` : `write one of ${values.join(", ")}`;
}

function explainUnknown(path: TomlPath, key: string, manifest: unknown): string {
  const fields = fieldsAt(path, manifest);
  const known = Object.keys(fields);
  const where = pathText([...path, key]);
  const table = tableDefining(key, fields);
  if (table !== undefined) {
    const header = [...path.filter((part) => typeof part === "string"), table].join(".");
    return `${where} is not a field here; write it in the table [${header}]`;
  }
  const similar_field = mostSimilar(key, known);
  if (similar_field !== undefined) return `${where} is not a known field; write ${similar_field}`;
  return `${where} is not a known field; remove it; known fields are ${known.join(", ")}`;
}

function repeatedIds(manifest: unknown): Finding[] {
  const list = valueAt(["exports"], manifest);
  const ids = Array.isArray(list) ? list.map((item: unknown) => valueAt(["id"], item)) : [];
  const findings: Finding[] = [];
  ids.forEach((id, index) => {
    const first = ids.indexOf(id);
    if (first === index) return;
    const message = `exports[${index}].id is ${shortValue(id)}, as in exports[${first}]; give each export its own id`;
    findings.push({ path: ["exports", index, "id"], message });
  });
  return findings;
}

function valueAt(path: TomlPath, manifest: unknown): unknown {
  let value = manifest;
  for (const part of path) {
    if (typeof value !== "object" || value === null || !Object.hasOwn(value, part)) return undefined;
    value = (value as Record<string | number, unknown>)[part];
  }
  return value;
}

function shortValue(value: unknown): string {
  if (value instanceof Date) return "a date";
  if (isObject(value)) return "a table";
  const text = JSON.stringify(value) ?? String(value);
  return text.length > 60 ? `${text.slice(0, 57)}…` : text;
}
