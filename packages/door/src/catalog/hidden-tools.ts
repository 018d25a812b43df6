/**
 * Tools that are bound but not in the catalog: tools whose changed definition nobody has accepted yet, tools of
 * bindings that accept no calls, and tools of the org that a project's own binding replaces. Each has the reason and
 * the command that makes it available. The list is computed for complete listings and explanations, never for a turn.
 */

import {
  type Binding,
  type CatalogEntry,
  type Definitions,
  isSelfDescribing,
  type Json,
  type ManifestToolExport,
  type MaybePromise,
  type QuarantinedTool,
  WHOLE_PACKAGE,
} from "@backplane/contract";
import type { BoundPackage, Caller, KernelDeps, Scope } from "@backplane/ports";
import {
  bindsWholePackage,
  computeRisk,
  type EffectivePolicy,
  effectiveClass,
  levelBeforeCall,
  type Policies,
  sanitizeExport,
  takesTraffic,
  toGrant,
  toolsOf,
} from "@backplane/registry";
import { originOf, selectUsable } from "../tools/precedence.ts";
import { estimateTokenCost, toObjectSchema } from "./offered-tool.ts";

export type ListHiddenTools = (caller: Caller) => Promise<CatalogEntry[]>;

/** Why the tools of a binding are hidden, and how to change that. */
interface Explanation {
  reason: string;
  fix: string;
}

const PAGE_SIZE = 200;

export function createHiddenTools(
  deps: Pick<KernelDeps, "store" | "host">,
  policies: Pick<Policies, "getEffective">,
  /** The active bindings as the catalog sees them, one for each tool. */
  listActive: (scope: Scope) => MaybePromise<readonly BoundPackage[]>,
): ListHiddenTools {
  const { store, host } = deps;

  async function* readBindings(scope: Scope): AsyncGenerator<Binding> {
    let after: string | undefined;
    do {
      const page = await store.bindings.list(
        scope,
        { kind: "tool" },
        { limit: PAGE_SIZE, ...(after && { after }) },
      );
      yield* page.items;
      after = page.next ?? undefined;
    } while (after !== undefined);
  }

  return async ({ scope, delegation }) => {
    // A delegated token may see only the tools that its grant names.
    if (delegation !== undefined) return [];
    const policy = await policies.getEffective(scope);
    // A caller without a project can call only org-wide bindings by a tool's name.
    const isEligible = ({ scope: { project_id } }: Binding) =>
      scope.project_id !== null || project_id === null;
    const active = (await listActive(scope)).filter(({ binding }) => isEligible(binding));
    const usable = new Set(selectUsable(active, scope));
    const hidden: CatalogEntry[] = [];
    const makeEntry = (bound: BoundPackage, item: ManifestToolExport, schemas: Record<string, Json>) =>
      toEntry(bound, item, schemas, assessRisk(bound, item, scope, host, policy));
    const addHidden = (bound: BoundPackage, item: ManifestToolExport, schemas: Record<string, Json>) =>
      hidden.push({ ...makeEntry(bound, item, schemas), ...explainHidden(bound, active) });
    for (const bound of active) {
      const item = toolsOf(bound.package).find(({ id }) => id === bound.binding.export_id);
      if (!usable.has(bound) && item !== undefined) addHidden(bound, item, bound.package.schemas);
    }
    for await (const binding of readBindings(scope)) {
      if (!isEligible(binding) || (binding.status === "active" && binding.export_id !== WHOLE_PACKAGE))
        continue;
      const bound = await store.bindings.get(scope, binding.binding_id);
      if (bound === null) continue;
      const definitions = isSelfDescribing(bound.package.manifest.runtime.protocol)
        ? await store.definitions.get(binding.scope.org_id, binding.binding_id)
        : null;
      if (binding.status !== "active")
        for (const { item, schemas } of listTools(bound, definitions)) addHidden(bound, item, schemas);
      else
        for (const held of definitions?.quarantined ?? []) hidden.push(toHeldEntry(bound, held, makeEntry));
    }
    return hidden;
  };
}

/** Shows the accepted text of a tool. The new text is shown only to the person who decides on it. */
function toHeldEntry(
  bound: BoundPackage,
  { export: item, former, since }: QuarantinedTool,
  makeEntry: (bound: BoundPackage, item: ManifestToolExport, schemas: Record<string, Json>) => CatalogEntry,
): CatalogEntry {
  const { description: _description, display_name: _display_name, ...bare } = item;
  const entry = former == null ? makeEntry(bound, bare, {}) : makeEntry(bound, former.export, former.schemas);
  return {
    ...entry,
    ...(former == null ? { description: "" } : {}),
    status: "held",
    reason: `its definition changed at ${since}, and nobody has accepted the change`,
    fix: `backplane binding accept ${bound.binding.binding_id} ${item.id}`,
  };
}

function explainHidden({ binding }: BoundPackage, active: readonly BoundPackage[]): Explanation {
  const { binding_id, status, unbound_slots } = binding;
  if (status === "disabled")
    return { reason: "its binding is disabled", fix: `backplane binding enable ${binding_id}` };
  if (status === "inactive") {
    const slots = unbound_slots.map((slot) => `--secret ${slot}=NAME`).join(" ");
    return {
      reason: `its binding has no secrets for the slots ${unbound_slots.join(", ")}`,
      fix: `backplane binding set ${binding_id} ${slots}`,
    };
  }
  const replacement = active.find((other) => replaces(other, binding));
  if (replacement === undefined)
    return {
      reason: "its binding's traffic_percent is 0",
      fix: `backplane binding set ${binding_id} --percent 100`,
    };
  const replacement_id = replacement.binding.binding_id;
  return {
    reason: `the project's own binding ${replacement_id} takes all calls to this name`,
    fix: `backplane binding disable ${replacement_id}`,
  };
}

function replaces(other: BoundPackage, { scope, export_id, rollout }: Binding): boolean {
  const { binding } = other;
  return (
    rollout.traffic_percent > 0 &&
    scope.project_id === null &&
    binding.scope.project_id !== null &&
    binding.export_id === export_id &&
    takesTraffic(other)
  );
}

function listTools(
  bound: BoundPackage,
  definitions: Definitions | null,
): { item: ManifestToolExport; schemas: Record<string, Json> }[] {
  const { package: pack, binding } = bound;
  if (definitions !== null)
    return definitions.exports.map((item) => ({ item, schemas: definitions.schemas }));
  return toolsOf(pack)
    .filter(({ id }) => bindsWholePackage(bound) || id === binding.export_id)
    .map((item) => ({ item, schemas: pack.schemas }));
}

function assessRisk(
  bound: BoundPackage,
  item: ManifestToolExport,
  scope: Scope,
  host: KernelDeps["host"],
  policy: EffectivePolicy,
): CatalogEntry["risk"] {
  const level = levelBeforeCall({ ...bound, export: item }, effectiveClass(bound.binding, item), scope, host);
  const plan = { export: item, effect_class: item.tool.effect_class };
  return computeRisk(plan, toGrant(level), policy, []).risk;
}

function toEntry(
  bound_package: BoundPackage,
  tool_export: ManifestToolExport,
  schemas: Record<string, Json>,
  risk: CatalogEntry["risk"],
): CatalogEntry {
  const with_schemas = { ...bound_package, package: { ...bound_package.package, schemas } };
  const { bound, export: item, taken_out } = sanitizeExport(with_schemas, tool_export);
  const { binding, package: pack } = bound;
  const { id, display_name = id, description, tool } = item as ManifestToolExport;
  const input = tool.input_schema === undefined ? null : (pack.schemas[tool.input_schema] ?? null);
  const fields = {
    name: id,
    description: description === undefined || description === "" ? display_name : description,
    parameters: toObjectSchema(input),
  };
  return {
    name: id,
    title: display_name === id ? null : display_name,
    description: fields.description,
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
    deferred_by: tool.deferred === true ? "author" : null,
    token_cost: estimateTokenCost(fields),
    input_schema: fields.parameters,
    taken_out,
  };
}
