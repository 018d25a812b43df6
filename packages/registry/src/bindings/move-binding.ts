/**
 * What a binding keeps when its package moves to another version: rules, configuration, secrets and share. Trust does not
 * move, because it was given to other bytes, and what the new version asks for beyond the old one is held back until
 * the operator gives it.
 */
import type { Binding, BindingPolicy, Permissions, PluginExport } from "@backplane/contract";
import { lowersIsolation } from "../grant/execution-class.ts";

export interface CarriedSettings {
  policy: BindingPolicy;
  secrets: Record<string, string>;
  trust_dropped: string[];
}

/** `to` is the export in the new version. */
export function carrySettings(before: Binding, to: PluginExport): CarriedSettings {
  const { host_target, class: chosen, secret_env, ...kept } = before.policy;
  const lowered = chosen !== undefined && (before.class_lowered_by !== null || lowersIsolation(chosen, to));
  const trust_dropped: string[] = [];
  if (host_target === true) trust_dropped.push("host_target");
  if (lowered) trust_dropped.push("class");
  const slots = to.permissions.secret_slots;
  return {
    policy: {
      ...kept,
      ...(host_target === false ? { host_target } : {}),
      ...(chosen === undefined || lowered ? {} : { class: chosen }),
      ...(secret_env === undefined ? {} : { secret_env: pickSlots(secret_env, slots) }),
    },
    secrets: pickSlots(before.secrets, slots),
    trust_dropped,
  };
}

const FILESYSTEM: Permissions["filesystem"][] = ["none", "assets_ro", "scratch"];

/** Narrows the policy to what the old version could be given at most. `held` names what is kept back by that. */
export function withholdPermissions(
  policy: BindingPolicy,
  from: Permissions,
  to: Permissions,
): { policy: BindingPolicy; held: string[] } {
  const narrowed = { ...policy.permissions };
  const held: string[] = [];
  if (to.network === "egress" && from.network === "none" && narrowed.network === undefined) {
    narrowed.network = "none";
    held.push("network");
  }
  const rank = (access: Permissions["filesystem"]) => FILESYSTEM.indexOf(access);
  const may = Math.min(rank(to.filesystem), rank(narrowed.filesystem ?? to.filesystem));
  if (may > rank(from.filesystem)) {
    narrowed.filesystem = from.filesystem;
    held.push("filesystem");
  }
  const scopes = to.gateway_api_scopes.filter(
    (scope) => narrowed.gateway_api_scopes?.includes(scope) ?? true,
  );
  if (scopes.some((scope) => !from.gateway_api_scopes.includes(scope))) {
    narrowed.gateway_api_scopes = scopes.filter((scope) => from.gateway_api_scopes.includes(scope));
    held.push("gateway_api_scopes");
  }
  const known = from.allowed_domains ?? [];
  const domains = policy.allowed_domains === undefined ? (to.allowed_domains ?? []) : [];
  const wider = from.network === "egress" && domains.some((domain) => !known.includes(domain));
  if (wider) held.push("allowed_domains");
  return {
    policy: {
      ...policy,
      ...(Object.keys(narrowed).length === 0 ? {} : { permissions: narrowed }),
      ...(wider ? { allowed_domains: known } : {}),
    },
    held,
  };
}

function pickSlots(given: Record<string, string>, slots: readonly string[]): Record<string, string> {
  return Object.fromEntries(Object.entries(given).filter(([slot]) => slots.includes(slot)));
}
