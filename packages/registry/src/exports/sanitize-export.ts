/**
 * Removes invisible characters from the titles, descriptions and schemas that authors write, before models and
 * clients see them. Every text of the catalog passes through here. Arguments are still checked against the original
 * schema, and definitions are compared in their original form.
 */

import {
  describeHiddenCharacters,
  findHiddenCharacters,
  type Json,
  type PluginExport,
  sanitizeJson,
} from "@backplane/contract";
import type { BoundPackage } from "@backplane/ports";

export interface SanitizedExport {
  /** The same object when nothing was removed. */
  bound: BoundPackage;
  export: PluginExport;
  /** One line for each removal, at most MAX_LINES, and then a line with the number of the others. */
  taken_out: readonly string[];
}

/** Limits the lines of one export, because a schema can contain any number of hidden texts. */
const MAX_LINES = 20;

export function sanitizeExport(bound: BoundPackage, item: PluginExport): SanitizedExport {
  const schemas = selectOwnSchemas(item, bound.package.schemas);
  const taken_out = listHiddenText(item, schemas);
  if (taken_out.length === 0) return { bound, export: item, taken_out };
  const { manifest } = bound.package;
  const sanitized = sanitizeJson(item as Json) as PluginExport;
  const exports = manifest.exports.map((declared) => (declared.id === item.id ? sanitized : declared));
  return {
    bound: {
      ...bound,
      package: {
        ...bound.package,
        manifest: { ...manifest, exports },
        schemas: { ...bound.package.schemas, ...sanitizeJson(schemas) },
      },
    },
    export: sanitized,
    taken_out,
  };
}

/** Lists what sanitizeExport would remove, one line each. */
export function listHiddenText(item: PluginExport, schemas: Readonly<Record<string, Json>>): string[] {
  const used_schemas = selectOwnSchemas(item, schemas);
  const findings = [
    ...findHiddenCharacters(item as Json),
    ...Object.values(used_schemas).flatMap((schema) =>
      findHiddenCharacters(schema).map((hidden) => ({ ...hidden, path: `/schema${hidden.path}` })),
    ),
  ];
  const lines = findings.slice(0, MAX_LINES).map(describeHiddenCharacters);
  if (findings.length > MAX_LINES) lines.push(`and ${findings.length - MAX_LINES} more texts`);
  return lines;
}

function selectOwnSchemas(item: PluginExport, schemas: Readonly<Record<string, Json>>): Record<string, Json> {
  const paths = [
    item.config_schema,
    ...(item.kind === "tool" ? [item.tool.input_schema, item.tool.output_schema] : []),
  ];
  const own_schemas: Record<string, Json> = {};
  for (const path of paths)
    if (path !== undefined && schemas[path] !== undefined) own_schemas[path] = schemas[path];
  return own_schemas;
}
