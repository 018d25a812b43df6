/**
 * A binding may cover every tool of its package (`*`) with one config, one set of secrets and one process. The door
 * handles bindings of one export only, so a call sees such a binding as the binding of the tool that it calls.
 */

import {
  INVOCATION_LIMITS,
  isSelfDescribing,
  type ManifestToolExport,
  type Package,
  type Permissions,
  type PluginExport,
  WHOLE_PACKAGE,
} from "@backplane/contract";
import type { BoundPackage } from "@backplane/ports";
import { moreIsolated } from "../grant/intersect.ts";
import { widerFilesystem } from "../grant/wider-parts.ts";

const NO_PERMISSIONS: Permissions = {
  network: "none",
  filesystem: "none",
  gateway_api_scopes: [],
  secret_slots: [],
};

export function bindsWholePackage({ binding }: BoundPackage): boolean {
  return binding.export_id === WHOLE_PACKAGE;
}

/** Returns the binding as a binding of this one export, or null when the package does not have the tool. */
export function selectExport(bound: BoundPackage, export_id: string): BoundPackage | null {
  if (!bindsWholePackage(bound)) return bound.binding.export_id === export_id ? bound : null;
  if (!bound.package.manifest.exports.some((item) => item.kind === "tool" && item.id === export_id)) {
    return null;
  }
  return { ...bound, binding: { ...bound.binding, export_id }, whole: true };
}

/** Returns one binding per tool of a whole package; other bindings unchanged. */
export function expandExports(bound: BoundPackage): BoundPackage[] {
  if (!bindsWholePackage(bound)) return [bound];
  return toolsOf(bound.package).map((item) => ({
    ...bound,
    binding: { ...bound.binding, export_id: item.id },
    whole: true,
  }));
}

/**
 * Returns an export with the permissions of all tools together. A binding of the whole package is checked and shown
 * with it. Null if the package lists neither tools nor skills.
 */
export function combineTools(pack: Package): PluginExport | null {
  const { runtime } = pack.manifest;
  const described = isSelfDescribing(runtime.protocol);
  const tools = toolsOf(pack);
  const has_skills = (pack.manifest.skills?.length ?? 0) > 0;
  if (tools.length === 0 && !described && !has_skills) return null;
  const classes = tools.flatMap((item) => item.execution_class ?? []);
  return {
    id: WHOLE_PACKAGE,
    kind: "tool",
    default_timeout_ms: INVOCATION_LIMITS.default_timeout_ms,
    permissions: described
      ? (runtime.permissions ?? NO_PERMISSIONS)
      : tools.map((item) => item.permissions).reduce(unionPermissions, NO_PERMISSIONS),
    tool: { effect_class: "unknown", streaming: false, requires_approval: false },
    ...(classes.length === 0 ? {} : { execution_class: classes.reduce(moreIsolated) }),
  };
}

export function toolsOf(pack: Package): ManifestToolExport[] {
  return pack.manifest.exports.filter((item) => item.kind === "tool");
}

function unionPermissions(a: Permissions, b: Permissions): Permissions {
  const union = <T>(a: readonly T[], b: readonly T[]) => [...new Set([...a, ...b])];
  return {
    network: a.network === "egress" ? "egress" : b.network,
    filesystem: widerFilesystem(a.filesystem, b.filesystem),
    gateway_api_scopes: union(a.gateway_api_scopes, b.gateway_api_scopes),
    secret_slots: union(a.secret_slots, b.secret_slots),
    ...(a.allowed_domains === undefined || b.allowed_domains === undefined
      ? {}
      : { allowed_domains: union(a.allowed_domains, b.allowed_domains) }),
    reasons: { ...b.reasons, ...a.reasons },
  };
}
