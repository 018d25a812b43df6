/** An entry of the catalog: a tool with its status, the reason for the status, and the command that changes it. */

import type { CatalogEntry, PluginExport } from "@backplane/contract";
import type { ExportPlan } from "@backplane/registry";
import type { Candidate } from "../tools/precedence.ts";
import type { OfferedTool, SharedToolView } from "./offered-tool.ts";

interface Explanation {
  reason: string;
  fix: string | null;
}

export interface PlannedCandidate extends Candidate {
  plan: ExportPlan;
}

/** Among entries with the same name, the tool that holds the name comes first. */
const STATUS_ORDER = {
  offered: 0,
  hidden: 0,
  held: 1,
  skipped: 2,
  failed: 3,
  inactive: 4,
} as const satisfies Record<CatalogEntry["status"], number>;

export function toCatalogEntry(
  { llm_tool, details, origin, deferred_by }: OfferedTool,
  { token_cost }: SharedToolView,
  { export: item, bound, taken_out }: ExportPlan,
  status: CatalogEntry["status"],
  explanation: Explanation | null,
): CatalogEntry {
  return {
    name: llm_tool.name,
    title: details.title,
    description: llm_tool.description,
    origin,
    package_id: bound.package.package_id,
    package_version: bound.package.version,
    binding_id: bound.binding.binding_id,
    status,
    reason: explanation?.reason ?? null,
    fix: explanation?.fix ?? null,
    category: categoryOf(item),
    risk: details.risk,
    effect_class: details.effect_class,
    requires_approval: details.requires_approval,
    deferred: deferred_by !== null,
    deferred_by,
    token_cost,
    input_schema: llm_tool.parameters,
    taken_out,
  };
}

/** How a tool that lost its name can be used: disable the holder, or call the tool by its package. */
export function findCollisionFix(loser: PlannedCandidate, holder: PlannedCandidate | null): string | null {
  if (holder === null) return null;
  const { origin, package_id, plan } = holder;
  if (origin === "core" || origin === "workspace")
    return `Call it by its package: backplane invoke ${loser.name} --package ${loser.package_id}`;
  const { binding, package: pack } = plan.bound;
  return pack.manifest.runtime.protocol === "module.kernel"
    ? `backplane plugin disable ${package_id.split("/").at(-1)}`
    : `backplane binding disable ${binding.binding_id}`;
}

/** Sorts by name, and entries of one name by status. */
export function compareEntries(a: CatalogEntry, b: CatalogEntry): number {
  return compare(a.name, b.name) || STATUS_ORDER[a.status] - STATUS_ORDER[b.status];
}

function compare(a: string, b: string): number {
  return a < b ? -1 : a > b ? 1 : 0;
}

/**
 * A tool that failed to load is not offered, because every call to it would fail. It keeps its name, so that no
 * other tool of that name is called instead.
 */
export function findLoadError({ export: item }: ExportPlan): Explanation | null {
  const error = item.kind === "tool" ? item.tool.load_error : undefined;
  return error === undefined ? null : { reason: `it cannot run: ${error}`, fix: null };
}

function categoryOf(item: PluginExport): string | null {
  return item.kind === "tool" ? (item.tool.category ?? null) : null;
}
