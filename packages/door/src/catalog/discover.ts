/** The exports that the caller can use, each with the binding that a call tries first. */

import type { DiscoveredExport, ExportKind, Json } from "@backplane/contract";
import type { Caller } from "@backplane/ports";
import type { BindingSource, ExportPlan, ExportPlans, Policies } from "@backplane/registry";
import { findListingDenial } from "../admission/visibility.ts";
import { selectUsable } from "../tools/precedence.ts";

interface DiscoverDeps {
  bindings: Pick<BindingSource, "discover">;
  plans: ExportPlans;
  policies: Policies;
}

export async function discoverExports(
  { bindings, plans, policies }: DiscoverDeps,
  caller: Caller,
  kind: ExportKind,
): Promise<DiscoveredExport[]> {
  const { scope } = caller;
  const [active, policy] = await Promise.all([bindings.discover(scope, kind), policies.getEffective(scope)]);
  const exports: DiscoveredExport[] = [];
  for (const bound of selectUsable(active, scope)) {
    const plan = await plans.get(bound, scope);
    if (findListingDenial(caller, plan, policy) === null) exports.push(toDiscoveredExport(plan));
  }
  return exports.sort((a, b) => (a.export_id < b.export_id ? -1 : a.export_id > b.export_id ? 1 : 0));
}

function toDiscoveredExport(plan: ExportPlan): DiscoveredExport {
  const { binding, package: pack } = plan.bound;
  const item = plan.export;
  const schema = (path: string | undefined): Json | null =>
    path === undefined ? null : (pack.schemas[path] ?? null);
  return {
    kind: item.kind,
    export_id: item.id,
    package_id: pack.package_id,
    package_version: pack.version,
    binding_id: binding.binding_id,
    display_name: item.display_name ?? item.id,
    description: item.description ?? "",
    class: plan.class,
    export: item,
    config_schema: schema(item.config_schema),
    input_schema: item.kind === "tool" ? schema(item.tool.input_schema) : null,
    output_schema: item.kind === "tool" ? schema(item.tool.output_schema) : null,
  };
}
