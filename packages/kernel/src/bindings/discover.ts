/** What the caller can use: per export the binding that rollout would look at first. */
import type { DiscoveredExport, ExportKind, Json } from "@backplane/contract";
import type { BindingSource } from "../definitions/with-definitions.ts";
import type { ExportPlan, ExportPlans } from "../invoke/export-plan.ts";
import type { BoundPackage, Caller } from "../ports/index.ts";
import { takesTraffic } from "./rollout.ts";

export async function discover(
  bindings: Pick<BindingSource, "discover">,
  plans: ExportPlans,
  caller: Caller,
  kind: ExportKind,
): Promise<DiscoveredExport[]> {
  const bound = await bindings.discover(caller.scope, kind);
  const found: DiscoveredExport[] = [];
  for (const one of usable(bound, caller)) {
    const plan = await plans.get(one, caller.scope);
    // As the role rule decides: a guest is shown only what it may call.
    if (caller.role === "guest" && plan.effect_class !== "read_only") continue;
    found.push(describe(one, plan));
  }
  return found.sort((a, b) => (a.export_id < b.export_id ? -1 : a.export_id > b.export_id ? 1 : 0));
}

/** A project's binding hides the org's of the same export while it takes all calls. */
function usable(bound: readonly BoundPackage[], caller: Caller): BoundPackage[] {
  const own = new Map<string, number>();
  for (const { binding } of bound) {
    if (binding.scope.project_id === null || caller.scope.project_id === null) continue;
    own.set(binding.export_id, (own.get(binding.export_id) ?? 0) + binding.rollout.traffic_percent);
  }
  const tools = caller.delegation?.grant.tools ?? null;
  return bound.filter((one) => {
    if (!takesTraffic(one)) return false;
    if (tools !== null && !tools.includes(one.binding.export_id)) return false;
    return one.binding.scope.project_id !== null || (own.get(one.binding.export_id) ?? 0) < 100;
  });
}

function describe(one: BoundPackage, plan: ExportPlan): DiscoveredExport {
  const { binding, package: pack } = one;
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
