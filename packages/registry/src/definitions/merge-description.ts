/**
 * Merges a new description into the stored definitions (mcp.client). The first description of each package version is
 * accepted, because the operator reviews it when binding or upgrading. After that, a tool that was seen before and
 * comes back with a different text, schema or hint is quarantined, even if it was missing in between. A new tool is
 * offered.
 */

import { hash } from "node:crypto";
import {
  type Binding,
  canonicalJson,
  type Definitions,
  type DescribedTool,
  type Json,
  type ManifestToolExport,
  type Package,
  type QuarantinedTool,
} from "@backplane/contract";
import type { Description } from "@backplane/ports";
import { diffTool } from "./diff-tool.ts";

/**
 * At most this many tool names of one package are remembered. If a package invents more names, every further tool is
 * quarantined.
 */
const MAX_SEEN = 10_000;
/** At most this many removed tools keep their last definition. */
const MAX_GONE = 200;

export function mergeDescription(
  before: Definitions | null,
  bound: { binding: Binding; package: Package },
  description: Description,
  now: string,
): Definitions {
  const is_first = before === null || before.package_digest !== bound.package.digest;
  const seen: Record<string, string> = is_first ? {} : { ...before.seen };
  let seen_count = Object.keys(seen).length;
  const exports: ManifestToolExport[] = [];
  const quarantined: QuarantinedTool[] = [];
  for (const item of description.exports) {
    const digest = digestTool(item, description.schemas);
    const earlier = is_first ? null : findRenamed(before, item);
    // A server that was renamed must not pass off a changed tool as a new one.
    if (earlier !== null) seen[item.id] ??= digestTool({ ...earlier.export, id: item.id }, earlier.schemas);
    const known_digest = Object.hasOwn(seen, item.id) ? seen[item.id] : undefined;
    if (known_digest === digest || (known_digest === undefined && seen_count < MAX_SEEN)) {
      if (known_digest === undefined) seen_count++;
      seen[item.id] = digest;
      exports.push(item);
      continue;
    }
    const pending_change = before?.quarantined.find((change) => change.export.id === item.id);
    const since = pending_change === undefined ? now : pending_change.since;
    const current = { export: item, schemas: selectSchemas(item, description.schemas) };
    const accepted = is_first ? null : (earlier ?? findFormer(before, item.id));
    quarantined.push({ ...current, since, former: accepted, changes: diffTool(accepted, current) });
  }
  return withDigest({
    binding_id: bound.binding.binding_id,
    package_digest: bound.package.digest,
    generation: bound.binding.generation,
    exports,
    schemas: collectSchemas(exports, description.schemas),
    quarantined,
    gone: is_first ? [] : listGone(before, description),
    seen,
    error: null,
    warnings: description.warnings,
    info: description.info,
    described_at: now,
    digest: "",
    revision: (before?.revision ?? 0) + 1,
  });
}

/** Finds the tool as it was last accepted. */
function findFormer(before: Definitions, id: string): DescribedTool | null {
  const offered = before.exports.find((tool) => tool.id === id);
  if (offered !== undefined) return { export: offered, schemas: selectSchemas(offered, before.schemas) };
  const pending_change = before.quarantined.find((change) => change.export.id === id);
  // Rows that an older version of Backplane wrote have neither field.
  return pending_change?.former ?? before.gone?.find((tool) => tool.export.id === id) ?? null;
}

/** Finds the accepted tool with the same name on the server. Its id differs if the server was renamed. */
function findRenamed(before: Definitions, { id, tool }: ManifestToolExport): DescribedTool | null {
  const { native_name } = tool;
  if (native_name === undefined || Object.hasOwn(before.seen, id)) return null;
  const former_exports = [...before.quarantined, ...(before.gone ?? [])].map((tool) => tool.export);
  const renamed = [...before.exports, ...former_exports].find(({ tool }) => tool.native_name === native_name);
  return renamed === undefined || renamed.id === id ? null : findFormer(before, renamed.id);
}

function listGone(before: Definitions, { exports }: Description): DescribedTool[] {
  const present_ids = new Set(exports.map(({ id }) => id));
  const former_ids = [
    ...before.exports.map(({ id }) => id),
    ...before.quarantined.map((change) => change.export.id),
  ];
  const newly_gone = former_ids
    .filter((id) => !present_ids.has(id))
    .flatMap((id) => findFormer(before, id) ?? []);
  const newly_gone_ids = new Set(newly_gone.map((change) => change.export.id));
  const earlier = (before.gone ?? []).filter(
    ({ export: { id } }) => !present_ids.has(id) && !newly_gone_ids.has(id),
  );
  return [...newly_gone, ...earlier].slice(0, MAX_GONE);
}

/** Moves quarantined tools to the offered ones and records their digests as accepted. */
export function acceptTools(before: Definitions, export_id: string): Definitions {
  const accepted = before.quarantined.filter((change) => export_id === "*" || change.export.id === export_id);
  const accepted_ids = new Set(accepted.map((change) => change.export.id));
  const exports = [
    ...before.exports.filter((item) => !accepted_ids.has(item.id)),
    ...accepted.map((change) => change.export),
  ].sort((a, b) => (a.id < b.id ? -1 : 1));
  const schemas = Object.assign({}, before.schemas, ...accepted.map((change) => change.schemas)) as Record<
    string,
    Json
  >;
  const seen = { ...before.seen };
  for (const change of accepted) seen[change.export.id] = digestTool(change.export, change.schemas);
  return withDigest({
    ...before,
    exports,
    schemas: collectSchemas(exports, schemas),
    quarantined: before.quarantined.filter((change) => !accepted_ids.has(change.export.id)),
    seen,
    revision: before.revision + 1,
  });
}

function withDigest(row: Definitions): Definitions {
  return { ...row, digest: digestOf([row.exports as Json, row.schemas]) };
}

/** Digests everything that a tool declares about itself. */
export function digestTool(item: ManifestToolExport, schemas: Record<string, Json>): string {
  return digestOf([item as Json, selectSchemas(item, schemas)]);
}

function selectSchemas({ tool }: ManifestToolExport, schemas: Record<string, Json>): Record<string, Json> {
  const used_schemas: Record<string, Json> = {};
  for (const path of [tool.input_schema, tool.output_schema]) {
    if (path !== undefined && schemas[path] !== undefined) used_schemas[path] = schemas[path];
  }
  return used_schemas;
}

function collectSchemas(
  exports: readonly ManifestToolExport[],
  schemas: Record<string, Json>,
): Record<string, Json> {
  return Object.assign({}, ...exports.map((item) => selectSchemas(item, schemas))) as Record<string, Json>;
}

function digestOf(value: Json): string {
  return `sha256:${hash("sha256", canonicalJson(value), "hex")}`;
}
