/**
 * All tools that exist for a caller, whatever their source, with the holder of each name and the decision of the
 * policy. A turn takes one snapshot and keeps it, so that its tools do not change during the turn. A cached snapshot
 * is at most one second old, because another node may have changed the bindings.
 */

import type { CatalogEntry, MaybePromise } from "@backplane/contract";
import type { BoundPackage, Caller, Clock, Logger, Scope } from "@backplane/ports";
import { type ExportPlan, type ExportPlans, type Policies, sortForListing } from "@backplane/registry";
import { findListingDenial } from "../admission/visibility.ts";
import { ACTION_TOOL, ADMIN_TOOLS, REQUEST_TOOL, SAMPLING_TOOL } from "../tools/core-tool.ts";
import { candidateOf, groupByCandidate, rank, selectUsable } from "../tools/precedence.ts";
import {
  compareEntries,
  findCollisionFix,
  findLoadError,
  type PlannedCandidate,
  toCatalogEntry,
} from "./catalog-entry.ts";
import {
  deferByBudget,
  deferByProfile,
  exceedsBudget,
  type ListedTool,
  SKILL_TOOL,
  type ToolUsage,
} from "./defer-tools.ts";
import { buildOfferedTool, type OfferedTool, type SharedToolView, sharedViewOf } from "./offered-tool.ts";

export interface CatalogSnapshot {
  /** The tools that the caller is offered, by name. */
  tools: ReadonlyMap<string, OfferedTool>;
  /** All tools, including tools that lost their name or are hidden, sorted by name. */
  entries: readonly CatalogEntry[];
  /** For each name, the plan of the binding that a call tries first. */
  plans: ReadonlyMap<string, ExportPlan>;
}

export interface ToolCatalog {
  /** Returns no promise while a fresh snapshot is cached (benchmark mcp.http-call). */
  snapshot(caller: Caller): MaybePromise<CatalogSnapshot>;
  /** Drops the cached snapshots after a change of bindings, tools or policy on this node. */
  forget(): void;
}

interface CatalogDeps {
  clock: Pick<Clock, "monotonic">;
  log: Pick<Logger, "warn" | "error">;
  plans: ExportPlans;
  policies: Policies;
  /** The active tool bindings of a scope, including those of the gateway's own tools. */
  listBindings: (scope: Scope) => Promise<readonly BoundPackage[]>;
  /** Whether a plugin answers tool.call.request events itself. */
  isLegacy: (bound: BoundPackage) => boolean;
  /** Whether this scope has a skill to read. */
  hasSkills: (scope: Scope) => Promise<boolean>;
  /** How often each tool was called recently in a scope. */
  readUsage: (scope: Scope) => Promise<ToolUsage>;
}

interface CachedSnapshot {
  at: number;
  /** A promise only while the snapshot is being read. */
  snapshot: MaybePromise<CatalogSnapshot>;
}

const FRESH_MS = 1_000;
const MAX_SNAPSHOTS = 256;
const MAX_WARNINGS = 4_096;
/**
 * How long the call counts for deferring tools by budget are reused. Fresh counts could change the tools of a
 * conversation.
 */
const USAGE_FRESH_MS = 3_600_000;
const NO_USAGE: ToolUsage = new Map();
/** The core tool that finds deferred tools. Hidden when no tool is deferred, because it would only cost tokens. */
export const SEARCH_TOOL = "tool_search";
const ADMINS_ONLY = {
  reason: "only a caller with the scope admin may use it",
  fix: "Use the admin token or a key with the scope admin.",
};
const NOTHING_DEFERRED = {
  status: "hidden",
  reason: "no tool is deferred, so there is nothing to find",
} as const;

/** Core tools that are not offered to models, each with the reason. */
const INTERNAL_TOOLS: Readonly<Record<string, string>> = {
  [SAMPLING_TOOL]: "it answers sampling requests from MCP servers and is not for models",
  [ACTION_TOOL]: "harnesses use it to ask for permission, and it is not for models",
  [REQUEST_TOOL]: "clients use it to read from MCP servers, and it is not for models",
};
const NO_SKILLS = { status: "hidden", reason: "no package with skills is bound here" } as const;

export function createToolCatalog(deps: CatalogDeps): ToolCatalog {
  const { clock, plans, policies } = deps;
  const snapshots = new Map<string, CachedSnapshot>();
  const warned = new Set<string>();
  const usages = new Map<string, { at: number; usage: ToolUsage }>();
  const views = new WeakMap<ExportPlan, SharedToolView>();
  const getSharedView = (plan: ExportPlan): SharedToolView => {
    let cached = views.get(plan);
    if (cached === undefined) {
      cached = sharedViewOf(plan);
      views.set(plan, cached);
    }
    return cached;
  };

  async function read(caller: Caller): Promise<CatalogSnapshot> {
    const { scope } = caller;
    const [active, policy] = await Promise.all([deps.listBindings(scope), policies.getEffective(scope)]);
    const sources: PlannedCandidate[] = [];
    // A caller without a project can call only org-wide bindings by name, so it never uses the secrets of a project.
    const eligible = scope.project_id === null ? active.filter(isOrgWide) : active;
    for (const group of groupByCandidate(selectUsable(eligible, scope))) {
      const ordered = group.length === 1 ? group : (sortForListing(group) as typeof group);
      const planned = plans.get(ordered[0], scope);
      const plan = planned instanceof Promise ? await planned : planned;
      sources.push({ ...candidateOf(ordered), plan });
    }
    const { winners, losers } = rank(sources);
    const tools = new Map<string, OfferedTool>();
    const entries: CatalogEntry[] = [];
    const listed_tools: ListedTool[] = [];
    let search: ListedTool | null = null;
    for (const { name, origin, plan } of winners.values()) {
      const lacks_admin = origin === "core" && ADMIN_TOOLS.includes(name) && !caller.admin;
      const listing_denial = lacks_admin ? ADMINS_ONLY : findListingDenial(caller, plan, policy);
      const denial = listing_denial ?? findLoadError(plan);
      const view = getSharedView(plan);
      const tool = buildOfferedTool(view, origin, plan, policy, deps.isLegacy(plan.bound));
      const entry = toCatalogEntry(tool, view, plan, denial === null ? "offered" : "hidden", denial);
      entries.push(entry);
      if (denial !== null) continue;
      if (name === SEARCH_TOOL && origin === "core") search = { tool, entry };
      else if (origin === "core" && INTERNAL_TOOLS[name] !== undefined)
        Object.assign(entry, { status: "hidden", reason: INTERNAL_TOOLS[name] });
      else if (name === SKILL_TOOL && origin === "bundled" && !(await deps.hasSkills(scope)))
        Object.assign(entry, NO_SKILLS);
      else listed_tools.push({ tool, entry });
    }
    deferByProfile(listed_tools, caller, policy);
    // Without the search tool a deferred tool could not be found. A key that specifies tools lists the tools that its
    // creator chose. A plugin is a program, and lists cost it no tokens.
    const has_budget = search !== null && caller.tools === undefined && caller.delegation === undefined;
    if (has_budget && exceedsBudget(listed_tools, policy))
      deferByBudget(listed_tools, policy, await readRecentUsage(scope));
    for (const { tool } of listed_tools) tools.set(tool.name, tool);
    const has_deferred_tools = listed_tools.some(({ tool }) => tool.deferred_by !== null);
    if (search !== null && has_deferred_tools) tools.set(SEARCH_TOOL, search.tool);
    else if (search !== null) Object.assign(search.entry, NOTHING_DEFERRED);
    for (const { candidate, holder, status, reason } of losers) {
      const view = getSharedView(candidate.plan);
      const tool = buildOfferedTool(view, candidate.origin, candidate.plan, policy, false);
      entries.push(
        toCatalogEntry(tool, view, candidate.plan, status, {
          reason,
          fix: findCollisionFix(candidate, holder),
        }),
      );
      logOnce(scope, candidate, status, reason);
    }
    entries.sort(compareEntries);
    return { tools, entries, plans: new Map([...winners].map(([name, { plan }]) => [name, plan])) };
  }

  async function readRecentUsage(scope: Scope): Promise<ToolUsage> {
    const key = `${scope.org_id}\n${scope.project_id}`;
    const now = clock.monotonic();
    const cached = usages.get(key);
    if (cached !== undefined && now - cached.at < USAGE_FRESH_MS) return cached.usage;
    // A turn must not fail because the call counts cannot be read.
    const usage = await deps.readUsage(scope).catch(() => cached?.usage ?? NO_USAGE);
    usages.delete(key);
    usages.set(key, { at: now, usage });
    if (usages.size > MAX_SNAPSHOTS) usages.delete(usages.keys().next().value as string);
    return usage;
  }

  /** Logs each tool and reason once per scope, because the catalog is read again often. */
  function logOnce(
    scope: Scope,
    { name, package_id }: PlannedCandidate,
    status: string,
    reason: string,
  ): void {
    const key = `${scope.org_id}\n${scope.project_id}\n${package_id}\n${name}\n${reason}`;
    if (warned.has(key)) return;
    if (warned.size >= MAX_WARNINGS) warned.clear();
    warned.add(key);
    const fields = { tool: name, package_id, reason };
    if (status === "failed") deps.log.error(fields, "tool not registered");
    else deps.log.warn(fields, "tool skipped: another tool has its name");
  }

  return {
    forget: () => snapshots.clear(),
    snapshot(caller) {
      const key = cacheKey(caller.scope, caller);
      if (key === null) return read(caller);
      const now = clock.monotonic();
      const cached = snapshots.get(key);
      if (cached !== undefined && now - cached.at < FRESH_MS) return cached.snapshot;
      const reading = read(caller);
      snapshots.delete(key);
      const entry: CachedSnapshot = { at: Number.POSITIVE_INFINITY, snapshot: reading };
      snapshots.set(key, entry);
      if (snapshots.size > MAX_SNAPSHOTS) snapshots.delete(snapshots.keys().next().value as string);
      // Callers that arrive while the snapshot is being read share the same read.
      reading.then(
        (snapshot) => {
          entry.at = clock.monotonic();
          entry.snapshot = snapshot;
        },
        () => snapshots.delete(key),
      );
      return reading;
    },
  };
}

function isOrgWide({ binding }: BoundPackage): boolean {
  return binding.scope.project_id === null;
}

/** Null for a delegated token: its view depends on its grant, which is not worth caching. */
function cacheKey(
  { org_id, project_id }: Scope,
  { role, delegation, admin, tools, channel = "" }: Caller,
): string | null {
  const profile = tools === undefined ? "" : tools.join(",");
  return delegation === undefined
    ? `${org_id}\n${project_id}\n${role}\n${admin}\n${channel}\n${profile}`
    : null;
}
