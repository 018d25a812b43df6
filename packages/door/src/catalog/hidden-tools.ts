/**
 * What is bound and yet no part of the catalog: tools whose definition changed and waits for a look, tools of bindings
 * that take no calls, and an org's tools that a project's own binding stands in for. Each with the reason and the
 * command that lets it in. Read when somebody asks for everything, never by a turn.
 */

import {
  type Binding,
  type CatalogEntry,
  type Definitions,
  isDescribed,
  type Json,
  type MaybePromise,
  type QuarantinedTool,
  type ToolExport,
  WHOLE_PACKAGE,
} from "@backplane/contract";
import type { BoundPackage, Caller, KernelDeps, Scope } from "@backplane/ports";
import {
  bindsWholePackage,
  type EffectivePolicy,
  effectiveClass,
  type Policies,
  sanitizeExport,
  standingLevel,
  takesTraffic,
  toGrant,
  toolsOf,
} from "@backplane/registry";
import { riskOf } from "../policy/risk.ts";
import { originOf } from "../tools/origin.ts";
import { usable } from "../tools/usable.ts";
import { objectSchema } from "./offered-tool.ts";
import { tokenCost } from "./token-cost.ts";

export type KeptBack = (caller: Caller) => Promise<CatalogEntry[]>;

/** Why a whole binding is out, with what changes that. */
interface Why {
  reason: string;
  fix: string;
}

const PAGE = 200;

export function createKeptBack(
  deps: Pick<KernelDeps, "store" | "host">,
  policies: Pick<Policies, "of">,
  /** Active bindings as the catalog sees them, one for each tool. */
  active: (scope: Scope) => MaybePromise<readonly BoundPackage[]>,
): KeptBack {
  const { store, host } = deps;

  async function* bindings(scope: Scope): AsyncGenerator<Binding> {
    let after: string | undefined;
    do {
      const page = await store.bindings.list(
        scope,
        { kind: "tool" },
        { limit: PAGE, ...(after && { after }) },
      );
      yield* page.items;
      after = page.next ?? undefined;
    } while (after !== undefined);
  }

  return async ({ scope, delegation }) => {
    // A plugin's own token names tools; what is out is not its to see.
    if (delegation !== undefined) return [];
    const policy = await policies.of(scope);
    // By a name alone a caller of the whole org gets the org's.
    const named = ({ scope: { project_id } }: Binding) => scope.project_id !== null || project_id === null;
    const serving = (await active(scope)).filter(({ binding }) => named(binding));
    const used = new Set(usable(serving, scope));
    const found: CatalogEntry[] = [];
    const entry = (bound: BoundPackage, item: ToolExport, schemas: Record<string, Json>) =>
      entryOf(bound, item, schemas, riskUnder(bound, item, scope, host, policy));
    const out = (bound: BoundPackage, item: ToolExport, schemas: Record<string, Json>) =>
      found.push({ ...entry(bound, item, schemas), ...whyOut(bound, serving) });
    for (const bound of serving) {
      const item = toolsOf(bound.package).find(({ id }) => id === bound.binding.export_id);
      if (!used.has(bound) && item !== undefined) out(bound, item, bound.package.schemas);
    }
    for await (const binding of bindings(scope)) {
      if (!named(binding) || (binding.status === "active" && binding.export_id !== WHOLE_PACKAGE)) continue;
      const bound = await store.bindings.get(scope, binding.binding_id);
      if (bound === null) continue;
      const described = isDescribed(bound.package.manifest.runtime.protocol);
      const definitions = described
        ? await store.definitions.get(binding.scope.org_id, binding.binding_id)
        : null;
      if (binding.status !== "active")
        for (const { item, schemas } of toolsBehind(bound, definitions)) out(bound, item, schemas);
      else for (const held of definitions?.quarantined ?? []) found.push(heldEntry(bound, held, entry));
    }
    return found;
  };
}

/** With the words that somebody has accepted: those that wait are for whoever decides on them. */
function heldEntry(
  bound: BoundPackage,
  { export: item, former, since }: QuarantinedTool,
  entry: (bound: BoundPackage, item: ToolExport, schemas: Record<string, Json>) => CatalogEntry,
): CatalogEntry {
  const { description: _untold, display_name: _unseen, ...bare } = item;
  const shown = former == null ? entry(bound, bare, {}) : entry(bound, former.export, former.schemas);
  return {
    ...shown,
    ...(former == null ? { description: "" } : {}),
    status: "held",
    reason: `its definition changed, seen ${since}, and nobody has accepted that`,
    fix: `backplane binding accept ${bound.binding.binding_id} ${item.id}`,
  };
}

function whyOut({ binding }: BoundPackage, all: readonly BoundPackage[]): Why {
  const { binding_id, status, unbound_slots } = binding;
  if (status === "disabled")
    return { reason: "its binding is disabled", fix: `backplane binding enable ${binding_id}` };
  if (status === "inactive") {
    const slots = unbound_slots.map((slot) => `--secret ${slot}=NAME`).join(" ");
    return {
      reason: `nothing is bound to its secret slots ${unbound_slots.join(", ")}`,
      fix: `backplane binding set ${binding_id} ${slots}`,
    };
  }
  const own = all.find((other) => standsInFor(other, binding));
  if (own === undefined)
    return {
      reason: "its binding's traffic_percent is 0",
      fix: `backplane binding set ${binding_id} --percent 100`,
    };
  const instead = own.binding.binding_id;
  return {
    reason: `the project's own binding ${instead} takes all calls of this name`,
    fix: `backplane binding disable ${instead}`,
  };
}

function standsInFor(other: BoundPackage, { scope, export_id, rollout }: Binding): boolean {
  const { binding } = other;
  return (
    rollout.traffic_percent > 0 &&
    scope.project_id === null &&
    binding.scope.project_id !== null &&
    binding.export_id === export_id &&
    takesTraffic(other)
  );
}

function toolsBehind(
  bound: BoundPackage,
  definitions: Definitions | null,
): { item: ToolExport; schemas: Record<string, Json> }[] {
  const { package: pack, binding } = bound;
  if (definitions !== null)
    return definitions.exports.map((item) => ({ item, schemas: definitions.schemas }));
  return toolsOf(pack)
    .filter(({ id }) => bindsWholePackage(bound) || id === binding.export_id)
    .map((item) => ({ item, schemas: pack.schemas }));
}

function riskUnder(
  bound: BoundPackage,
  item: ToolExport,
  scope: Scope,
  host: KernelDeps["host"],
  policy: EffectivePolicy,
): CatalogEntry["risk"] {
  const level = standingLevel({ ...bound, export: item }, effectiveClass(bound.binding, item), scope, host);
  const plan = { export: item, effect_class: item.tool.effect_class };
  return riskOf(plan, toGrant(level), policy, []).risk;
}

function entryOf(
  given: BoundPackage,
  own: ToolExport,
  schemas: Record<string, Json>,
  risk: CatalogEntry["risk"],
): CatalogEntry {
  const named = { ...given, package: { ...given.package, schemas } };
  const { bound, export: item, taken_out } = sanitizeExport(named, own);
  const { binding, package: pack } = bound;
  const { id, display_name = id, description, tool } = item as ToolExport;
  const input = tool.input_schema === undefined ? null : (pack.schemas[tool.input_schema] ?? null);
  const shown = {
    name: id,
    description: description === undefined || description === "" ? display_name : description,
    parameters: objectSchema(input),
  };
  return {
    name: id,
    title: display_name === id ? null : display_name,
    description: shown.description,
    origin: originOf({ package: pack }),
    package_id: pack.package_id,
    package_version: pack.version,
    binding_id: binding.binding_id,
    status: "inactive",
    reason: null,
    fix: null,
    category: tool.category ?? null,
    risk,
    effect_class: tool.effect_class,
    requires_approval: tool.requires_approval,
    deferred: tool.deferred === true,
    token_cost: tokenCost(shown),
    input_schema: shown.parameters,
    taken_out,
  };
}
