/** A line of the catalog: a tool, offered or not, with the reason and the way around it. */

import type { CatalogEntry, PluginExport } from "@backplane/contract";
import type { ExportPlan } from "@backplane/registry";
import type { Candidate } from "../tools/precedence.ts";
import type { OfferedTool, ToolFacts } from "./offered-tool.ts";

interface Why {
  reason: string;
  fix: string | null;
}

export interface Source extends Candidate {
  plan: ExportPlan;
}

/** Of one name the one that has it comes first. */
const LAST = { offered: 0, hidden: 0, held: 1, skipped: 2, failed: 3, inactive: 4 } as const satisfies Record<
  CatalogEntry["status"],
  number
>;

export function entryOf(
  { shown, about, origin, deferred }: OfferedTool,
  { token_cost }: ToolFacts,
  { export: item, bound, taken_out }: ExportPlan,
  status: CatalogEntry["status"],
  why: Why | null,
): CatalogEntry {
  return {
    name: shown.name,
    title: about.title,
    description: shown.description,
    origin,
    package_id: bound.package.package_id,
    package_version: bound.package.version,
    binding_id: bound.binding.binding_id,
    status,
    reason: why?.reason ?? brokenBy(item),
    fix: why?.fix ?? null,
    category: categoryOf(item),
    risk: about.risk,
    effect_class: about.effect_class,
    requires_approval: about.requires_approval,
    deferred,
    token_cost,
    input_schema: shown.parameters,
    taken_out,
  };
}

/** Whoever has the name gives it up, or the tool is called by its package. */
export function wayAround(loser: Source, holder: Source | null): string | null {
  if (holder === null) return null;
  const { origin, package_id, plan } = holder;
  if (origin === "core" || origin === "workspace")
    return `It can be called by its package: backplane invoke ${loser.name} --package ${loser.package_id}`;
  const { binding, package: pack } = plan.bound;
  return pack.manifest.runtime.protocol === "module.kernel"
    ? `backplane plugin disable ${package_id.split("/").at(-1)}`
    : `backplane binding disable ${binding.binding_id}`;
}

/** By name; of one name the one that has it first. */
export function byName(a: CatalogEntry, b: CatalogEntry): number {
  return compare(a.name, b.name) || LAST[a.status] - LAST[b.status];
}

function compare(a: string, b: string): number {
  return a < b ? -1 : a > b ? 1 : 0;
}

/** A tool that did not load keeps its name and is offered; whoever lists it has to see that it cannot run. */
function brokenBy(item: PluginExport): string | null {
  const error = item.kind === "tool" ? item.tool.load_error : undefined;
  return error === undefined ? null : `it cannot run: ${error}`;
}

function categoryOf(item: PluginExport): string | null {
  return item.kind === "tool" ? (item.tool.category ?? null) : null;
}
