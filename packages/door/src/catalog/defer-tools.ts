/**
 * Defers tools that the caller did not choose, or that do not fit into the policy's token budget (client.profiles).
 * The choice depends only on the arguments, so it stays the same until the catalog, the policy or the usage changes.
 */

import type { CatalogEntry, Deferral } from "@backplane/contract";
import type { Caller } from "@backplane/ports";
import { compileToolPatterns, type EffectivePolicy } from "@backplane/registry";
import type { OfferedTool } from "./offered-tool.ts";

export interface ListedTool {
  tool: OfferedTool;
  entry: CatalogEntry;
}

/** How often each tool was called recently. */
export type ToolUsage = ReadonlyMap<string, number>;

/** The bundled tool that reads skills. It is offered only where there are skills. */
export const SKILL_TOOL = "skill";

/**
 * Defers the tools that the caller's key does not list, including those of the gateway itself. Pinned tools stay, and
 * so does the skill tool, because skills are listed separately from tools.
 */
export function deferByProfile(
  listed_tools: readonly ListedTool[],
  { tools }: Pick<Caller, "tools">,
  policy: EffectivePolicy,
): void {
  if (tools === undefined) return;
  const isChosen = compileToolPatterns(tools.flatMap((pattern) => findProfile(policy, pattern) ?? [pattern]));
  for (const each of listed_tools) {
    const { name } = each.tool;
    // The key lists the tool explicitly, which takes precedence over a deferral by the tool's author or the policy.
    if (isChosen(name)) setDeferral(each, null);
    else if (each.tool.deferred_by === null && !policy.pinned(name) && !isSkillTool(each))
      setDeferral(each, "profile");
  }
}

function isSkillTool({ tool: { name, origin } }: ListedTool): boolean {
  return name === SKILL_TOOL && origin === "bundled";
}

/**
 * Returns the tools of the profile that `@NAME` refers to: none if the profile was removed, null for a tool pattern.
 */
function findProfile({ document }: EffectivePolicy, pattern: string): readonly string[] | null {
  const name = profileNameOf(pattern);
  return name === null ? null : (document.tool_profiles[name] ?? []);
}

/** Returns NAME of `@NAME`, or null for a tool pattern. */
export function profileNameOf(pattern: string): string | null {
  return pattern.startsWith("@") ? pattern.slice(1) : null;
}

/** Whether the tools that are not deferred cost more than the budget. */
export function exceedsBudget(listed_tools: readonly ListedTool[], policy: EffectivePolicy): boolean {
  return costOf(listed_tools) > policy.document.tool_token_budget;
}

/**
 * Defers the least used tools first, and the more expensive of two equally used ones, until the rest fits the budget.
 */
export function deferByBudget(
  listed_tools: readonly ListedTool[],
  policy: EffectivePolicy,
  usage: ToolUsage,
): void {
  const countCalls = ({ tool }: ListedTool) => usage.get(tool.export_id) ?? 0;
  const candidates = listed_tools
    .filter((each) => each.tool.deferred_by === null && mayDefer(each, policy))
    .toSorted(
      (a, b) =>
        countCalls(a) - countCalls(b) ||
        b.entry.token_cost - a.entry.token_cost ||
        (a.tool.name < b.tool.name ? 1 : -1),
    );
  let cost = costOf(listed_tools);
  for (const each of candidates) {
    if (cost <= policy.document.tool_token_budget) return;
    setDeferral(each, "budget");
    cost -= each.entry.token_cost;
  }
}

/**
 * Whether the budget may defer the tool. A turn depends on core and bundled tools, so a model must not have to search
 * for them.
 */
function mayDefer({ tool }: ListedTool, policy: EffectivePolicy): boolean {
  return tool.origin !== "core" && tool.origin !== "bundled" && !policy.pinned(tool.name);
}

function setDeferral({ tool, entry }: ListedTool, deferred_by: Deferral | null): void {
  tool.deferred_by = deferred_by;
  Object.assign(entry, { deferred: deferred_by !== null, deferred_by });
}

function costOf(listed_tools: readonly ListedTool[]): number {
  let cost = 0;
  for (const { tool, entry } of listed_tools) if (tool.deferred_by === null) cost += entry.token_cost;
  return cost;
}
