/**
 * Which bindings a scope uses. A project's own binding of a name takes the place of the org's while it takes all calls;
 * what comes with the gateway (core, workspace, bundled) is never replaced in this way, but by precedence alone.
 */
import type { BoundPackage, Scope } from "@backplane/ports";
import { takesTraffic } from "@backplane/registry";
import { originOf } from "./origin.ts";

export function usable(bounds: readonly BoundPackage[], { project_id }: Scope): BoundPackage[] {
  const own = new Map<string, number>();
  for (const { binding } of bounds) {
    if (binding.scope.project_id === null || project_id === null || binding.status !== "active") continue;
    own.set(binding.export_id, (own.get(binding.export_id) ?? 0) + binding.rollout.traffic_percent);
  }
  return bounds.filter((one) => {
    if (!takesTraffic(one)) return false;
    const { scope, export_id } = one.binding;
    return scope.project_id !== null || (own.get(export_id) ?? 0) < 100 || comesWithGateway(one);
  });
}

function comesWithGateway(bound: BoundPackage): boolean {
  const origin = originOf(bound);
  return origin !== "plugin" && origin !== "mcp";
}
