/**
 * What becomes of a new description (mcp.client). The first one is what the operator binds, and another package
 * version is reviewed as such. From then on a tool that was seen and comes back with other words, schema or hints is
 * kept back, also when it was gone for a while in between; one that is new is offered.
 */

import { hash } from "node:crypto";
import {
  type Binding,
  canonicalJson,
  type Definitions,
  type Json,
  type Package,
  type QuarantinedTool,
  type ToolExport,
  type ToolWords,
} from "@backplane/contract";
import type { Description } from "@backplane/ports";
import { diffTool } from "./changes.ts";

/** Names of one package that are remembered; one that makes up new ones all the time is looked at from then on. */
const SEEN = 10_000;
/** Tools that went away whose words are kept. */
const GONE = 200;

export function mergeDescription(
  before: Definitions | null,
  bound: { binding: Binding; package: Package },
  description: Description,
  now: string,
): Definitions {
  const reviewed = before === null || before.package_digest !== bound.package.digest;
  const seen: Record<string, string> = reviewed ? {} : { ...before.seen };
  let names = Object.keys(seen).length;
  const exports: ToolExport[] = [];
  const quarantined: QuarantinedTool[] = [];
  for (const item of description.exports) {
    const digest = digestTool(item, description.schemas);
    const known = Object.hasOwn(seen, item.id) ? seen[item.id] : undefined;
    if (known === digest || (known === undefined && names < SEEN)) {
      if (known === undefined) names++;
      seen[item.id] = digest;
      exports.push(item);
      continue;
    }
    const waiting = before?.quarantined.find((one) => one.export.id === item.id);
    const since = waiting === undefined ? now : waiting.since;
    const words = { export: item, schemas: schemasOf(item, description.schemas) };
    const former = reviewed ? null : formerOf(before, item.id);
    quarantined.push({ ...words, since, former, changes: diffTool(former, words) });
  }
  return withDigest({
    binding_id: bound.binding.binding_id,
    package_digest: bound.package.digest,
    generation: bound.binding.generation,
    exports,
    schemas: schemasOfAll(exports, description.schemas),
    quarantined,
    gone: reviewed ? [] : goneSince(before, description),
    seen,
    error: null,
    warnings: description.warnings,
    info: description.info,
    described_at: now,
    digest: "",
    revision: (before?.revision ?? 0) + 1,
  });
}

/** As it was last accepted, for whoever compares. */
function formerOf(before: Definitions, id: string): ToolWords | null {
  const offered = before.exports.find((one) => one.id === id);
  if (offered !== undefined) return { export: offered, schemas: schemasOf(offered, before.schemas) };
  const waiting = before.quarantined.find((one) => one.export.id === id);
  // Rows of an earlier version have neither.
  return waiting?.former ?? before.gone?.find((one) => one.export.id === id) ?? null;
}

function goneSince(before: Definitions, { exports }: Description): ToolWords[] {
  const here = new Set(exports.map(({ id }) => id));
  const left = [...before.exports.map(({ id }) => id), ...before.quarantined.map((one) => one.export.id)];
  const newly = left.filter((id) => !here.has(id)).flatMap((id) => formerOf(before, id) ?? []);
  const names = new Set(newly.map((one) => one.export.id));
  const earlier = (before.gone ?? []).filter(({ export: { id } }) => !here.has(id) && !names.has(id));
  return [...newly, ...earlier].slice(0, GONE);
}

/** The operator has looked at it: from now on these are the words of this tool. */
export function acceptTools(before: Definitions, export_id: string): Definitions {
  const taken = before.quarantined.filter((one) => export_id === "*" || one.export.id === export_id);
  const names = new Set(taken.map((one) => one.export.id));
  const exports = [
    ...before.exports.filter((item) => !names.has(item.id)),
    ...taken.map((one) => one.export),
  ].sort((a, b) => (a.id < b.id ? -1 : 1));
  const schemas = Object.assign({}, before.schemas, ...taken.map((one) => one.schemas)) as Record<
    string,
    Json
  >;
  const seen = { ...before.seen };
  for (const one of taken) seen[one.export.id] = digestTool(one.export, one.schemas);
  return withDigest({
    ...before,
    exports,
    schemas: schemasOfAll(exports, schemas),
    quarantined: before.quarantined.filter((one) => !names.has(one.export.id)),
    seen,
    revision: before.revision + 1,
  });
}

function withDigest(row: Definitions): Definitions {
  return { ...row, digest: digestOf([row.exports as Json, row.schemas]) };
}

/** What a tool says that it is, to the last word. */
export function digestTool(item: ToolExport, schemas: Record<string, Json>): string {
  return digestOf([item as Json, schemasOf(item, schemas)]);
}

function schemasOf({ tool }: ToolExport, schemas: Record<string, Json>): Record<string, Json> {
  const found: Record<string, Json> = {};
  for (const path of [tool.input_schema, tool.output_schema]) {
    if (path !== undefined && schemas[path] !== undefined) found[path] = schemas[path];
  }
  return found;
}

function schemasOfAll(exports: readonly ToolExport[], schemas: Record<string, Json>): Record<string, Json> {
  return Object.assign({}, ...exports.map((item) => schemasOf(item, schemas))) as Record<string, Json>;
}

function digestOf(value: Json): string {
  return `sha256:${hash("sha256", canonicalJson(value), "hex")}`;
}
