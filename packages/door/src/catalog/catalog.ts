/**
 * Every tool that there is for a caller, whatever its source, with who has each name and what policy says of it. A turn
 * takes one snapshot and keeps it, so that nothing shifts under it. Bindings are read again after a second at most:
 * another node may have changed them.
 */

import type { CatalogEntry, MaybePromise } from "@backplane/contract";
import type { BoundPackage, Caller, Clock, Logger, Scope } from "@backplane/ports";
import { type ExportPlan, type ExportPlans, type Policies, sortByPrecedence } from "@backplane/registry";
import { forbidden } from "../policy/forbidden.ts";
import { ADMIN_TOOLS, REQUEST_TOOL, SAMPLING_TOOL } from "../tools/core-tool.ts";
import { candidateOf, grouped, rank } from "../tools/precedence.ts";
import { usable } from "../tools/usable.ts";
import { byName, entryOf, type Source, wayAround } from "./catalog-entry.ts";
import { factsOf, type OfferedTool, offer, type ToolFacts } from "./offered-tool.ts";

export interface CatalogSnapshot {
  /** What the caller may be offered, by name. */
  tools: ReadonlyMap<string, OfferedTool>;
  /** Everything, losers and hidden ones included, by name. */
  entries: readonly CatalogEntry[];
  /** Per name the binding that a call would look at first. */
  plans: ReadonlyMap<string, ExportPlan>;
}

export interface ToolCatalog {
  snapshot(caller: Caller): MaybePromise<CatalogSnapshot>;
  /** After a change of bindings, tools or policy on this node. */
  forget(): void;
}

export interface CatalogDeps {
  clock: Pick<Clock, "monotonic">;
  log: Pick<Logger, "warn" | "error">;
  plans: ExportPlans;
  policies: Policies;
  /** Active tool bindings of a scope, those of the gateway's own tools among them. */
  bounds: (scope: Scope) => Promise<readonly BoundPackage[]>;
  /** Answers tool.call.request events by itself. */
  legacy: (bound: BoundPackage) => boolean;
  /** Whether there is a skill to read in this scope. */
  anySkill: (scope: Scope) => Promise<boolean>;
}

interface Kept {
  at: number;
  /** Itself, as soon as it is read. */
  snapshot: MaybePromise<CatalogSnapshot>;
}

const FRESH_MS = 1_000;
const KEPT = 256;
const WARNED = 4_096;
/** The core tool that finds deferred ones; without any it would only cost tokens. */
export const SEARCH_TOOL = "tool_search";
/** The bundled tool that reads skills; the same holds for it. */
const SKILL_TOOL = "skill";
const FOR_ADMINS = { reason: "it is for admins", fix: "Ask with the admin token." };
const NOTHING_TO_FIND = {
  status: "hidden",
  reason: "no tool is deferred, so there is nothing to find",
} as const;

/** Core tools that the gateway itself calls, each with the reason. */
const NO_MODEL_CALLS: Readonly<Record<string, string>> = {
  [SAMPLING_TOOL]: "it answers MCP servers, and no model calls it",
  [REQUEST_TOOL]: "it is for clients that read of MCP servers, and no model calls it",
};
const NO_SKILLS = { status: "hidden", reason: "no package with skills is bound here" } as const;

export function createToolCatalog(deps: CatalogDeps): ToolCatalog {
  const { clock, plans, policies } = deps;
  const known = new Map<string, Kept>();
  const warned = new Set<string>();
  const facts = new WeakMap<ExportPlan, ToolFacts>();
  const factsAt = (plan: ExportPlan): ToolFacts => {
    let known = facts.get(plan);
    if (known === undefined) {
      known = factsOf(plan);
      facts.set(plan, known);
    }
    return known;
  };

  async function read(caller: Caller): Promise<CatalogSnapshot> {
    const { scope } = caller;
    const [bounds, policy] = await Promise.all([deps.bounds(scope), policies.of(scope)]);
    const sources: Source[] = [];
    // By a name alone a caller of the whole org gets the org's, never the config and secrets of some project.
    const named = scope.project_id === null ? bounds.filter(isOrgWide) : bounds;
    for (const group of grouped(usable(named, scope))) {
      const ordered = group.length === 1 ? group : (sortByPrecedence(group) as typeof group);
      const made = plans.get(ordered[0], scope);
      const plan = made instanceof Promise ? await made : made;
      sources.push({ ...candidateOf(ordered), plan });
    }
    const { winners, losers } = rank(sources);
    const tools = new Map<string, OfferedTool>();
    const entries: CatalogEntry[] = [];
    let search: { tool: OfferedTool; entry: CatalogEntry } | null = null;
    let deferred = 0;
    for (const { name, origin, plan } of winners.values()) {
      const admins = origin === "core" && ADMIN_TOOLS.includes(name) && !caller.admin;
      const refused = admins ? FOR_ADMINS : forbidden(caller, plan, policy);
      const about = factsAt(plan);
      const tool = offer(about, origin, plan, policy, deps.legacy(plan.bound));
      const entry = entryOf(tool, about, plan, refused === null ? "offered" : "hidden", refused);
      entries.push(entry);
      if (refused !== null) continue;
      if (tool.deferred) deferred++;
      if (name === SEARCH_TOOL && origin === "core") search = { tool, entry };
      else if (origin === "core" && NO_MODEL_CALLS[name] !== undefined)
        Object.assign(entry, { status: "hidden", reason: NO_MODEL_CALLS[name] });
      else if (name === SKILL_TOOL && origin === "bundled" && !(await deps.anySkill(scope)))
        Object.assign(entry, NO_SKILLS);
      else tools.set(name, tool);
    }
    if (search !== null && deferred > 0) tools.set(SEARCH_TOOL, search.tool);
    else if (search !== null) Object.assign(search.entry, NOTHING_TO_FIND);
    for (const { candidate, holder, status, reason } of losers) {
      const about = factsAt(candidate.plan);
      const tool = offer(about, candidate.origin, candidate.plan, policy, false);
      entries.push(
        entryOf(tool, about, candidate.plan, status, { reason, fix: wayAround(candidate, holder) }),
      );
      complain(scope, candidate, status, reason);
    }
    entries.sort(byName);
    return { tools, entries, plans: new Map([...winners].map(([name, { plan }]) => [name, plan])) };
  }

  /** Once each: the catalog is read again all the time. */
  function complain(scope: Scope, { name, package_id }: Source, status: string, reason: string): void {
    const key = `${scope.org_id}\n${scope.project_id}\n${package_id}\n${name}\n${reason}`;
    if (warned.has(key)) return;
    if (warned.size >= WARNED) warned.clear();
    warned.add(key);
    const about = { tool: name, package_id, reason };
    if (status === "failed") deps.log.error(about, "a tool could not be registered");
    else deps.log.warn(about, "a tool is skipped: another one has its name");
  }

  return {
    forget: () => known.clear(),
    snapshot(caller) {
      const key = keyOf(caller.scope, caller);
      if (key === null) return read(caller);
      const now = clock.monotonic();
      const there = known.get(key);
      if (there !== undefined && now - there.at < FRESH_MS) return there.snapshot;
      const reading = read(caller);
      known.delete(key);
      const kept: Kept = { at: Number.POSITIVE_INFINITY, snapshot: reading };
      known.set(key, kept);
      if (known.size > KEPT) known.delete(known.keys().next().value as string);
      // Whoever asks while it is being read gets the same.
      reading.then(
        (snapshot) => {
          kept.at = clock.monotonic();
          kept.snapshot = snapshot;
        },
        () => known.delete(key),
      );
      return reading;
    },
  };
}

function isOrgWide({ binding }: BoundPackage): boolean {
  return binding.scope.project_id === null;
}

/** Null: a plugin's own token sees what its grant names, which is not worth keeping. */
function keyOf({ org_id, project_id }: Scope, { role, delegation, admin }: Caller): string | null {
  return delegation === undefined ? `${org_id}\n${project_id}\n${role}\n${admin}` : null;
}
