/**
 * The one way of an author's words into the catalog, whatever their source: titles, descriptions and schemas as models
 * and clients are shown them, without what nobody can see in them. Arguments are still checked against the schema as its
 * author wrote it, and a changed definition is compared as it came.
 */

import { hiddenIn, hiddenText, type Json, type PluginExport, plainJson } from "@backplane/contract";
import type { BoundPackage } from "@backplane/ports";

export interface SanitizedExport {
  /** With the words as they are shown; the very same where nothing was hidden. */
  bound: BoundPackage;
  export: PluginExport;
  /** What was taken out, one line each. */
  taken_out: readonly string[];
}

const NOTHING: readonly string[] = [];
/** Lines about one tool; a schema can hold any number of them. */
const MOST = 20;

export function sanitizeExport(bound: BoundPackage, item: PluginExport): SanitizedExport {
  const schemas = ownSchemas(item, bound.package.schemas);
  const taken_out = listHiddenText(item, schemas);
  if (taken_out.length === 0) return { bound, export: item, taken_out: NOTHING };
  const { manifest } = bound.package;
  const shown = plainJson(item as Json) as PluginExport;
  const exports = manifest.exports.map((one) => (one.id === item.id ? shown : one));
  return {
    bound: {
      ...bound,
      package: {
        ...bound.package,
        manifest: { ...manifest, exports },
        schemas: { ...bound.package.schemas, ...plainJson(schemas) },
      },
    },
    export: shown,
    taken_out,
  };
}

/** The same for words that are not bound: what would be taken out of them. */
export function listHiddenText(item: PluginExport, schemas: Readonly<Record<string, Json>>): string[] {
  const own = ownSchemas(item, schemas);
  const found = [
    ...hiddenIn(item as Json),
    ...Object.values(own).flatMap((schema) =>
      hiddenIn(schema).map((one) => ({ ...one, path: `/schema${one.path}` })),
    ),
  ];
  const lines = found.slice(0, MOST).map(hiddenText);
  if (found.length > MOST) lines.push(`and ${found.length - MOST} more texts`);
  return lines;
}

function ownSchemas(item: PluginExport, schemas: Readonly<Record<string, Json>>): Record<string, Json> {
  const paths = [
    item.config_schema,
    ...(item.kind === "tool" ? [item.tool.input_schema, item.tool.output_schema] : []),
  ];
  const found: Record<string, Json> = {};
  for (const path of paths)
    if (path !== undefined && schemas[path] !== undefined) found[path] = schemas[path];
  return found;
}
