/**
 * Computes the grant of a call from its levels. Everything except the levels of the caller and of the stored policy
 * depends only on the binding's generation and definitions, the project and the host's configuration, so it is computed
 * once for these (exports/export-plan.ts).
 */

import { hash } from "node:crypto";
import {
  type Binding,
  canonicalJson,
  type DelegationScope,
  type ExecutionClass,
  type Grant,
  type HARNESS_SUPPORTS,
  type InvokeBody,
  type Package,
  type PluginExport,
} from "@backplane/contract";
import type { Caller, HostPolicy, Scope } from "@backplane/ports";
import { intersect, type Level } from "./intersect.ts";
import { listSlots } from "./server-slots.ts";

/** The level of a binding before a call narrows it: manifest, binding, organization, project and host. */
export function levelBeforeCall(
  bound: { binding: Binding; package: Package; export: PluginExport },
  isolation: ExecutionClass,
  scope: Scope,
  host: HostPolicy,
): Level {
  const { binding, export: item } = bound;
  const level = intersect(
    { class: isolation, ...manifestLevel(item, bound.package), secret_slots: listSlots(bound, binding) },
    bindingLevel(binding),
    host.orgs?.get(scope.org_id) ?? {},
    host.projects?.get(`${scope.org_id}/${scope.project_id}`) ?? {},
    hostLevel(host),
  );
  // If no level lists domains, none are reachable. A caller that lists some must not gain access that way.
  return { ...level, allowed_domains: level.allowed_domains ?? [] };
}

/** Returns the domains that the gateway itself may reach for a scope. */
export function gatewayDomains(scope: Scope, host: HostPolicy): readonly string[] {
  const level = intersect(
    { network: "egress", allowed_domains: ["*"] },
    host.orgs?.get(scope.org_id) ?? {},
    host.projects?.get(`${scope.org_id}/${scope.project_id}`) ?? {},
    hostLevel(host),
  );
  return level.network === "egress" ? (level.allowed_domains ?? []) : [];
}

/** Returns undefined when the caller narrows nothing, which is the usual case. */
export function callerLevel(caller: Caller, narrow: InvokeBody["narrow"]): Level | undefined {
  const parent = caller.delegation?.grant;
  if (parent === undefined) return narrow;
  // A call from inside the sandbox must not run on the host unless its parent does.
  const level = { ...parent, host: parent.host === true };
  return narrow === undefined ? level : intersect(level, narrow);
}

export function toGrant(level: Level): Grant {
  const network = level.network ?? "none";
  return {
    class: level.class ?? "isolated",
    network,
    allowed_domains: network === "none" ? [] : [...(level.allowed_domains ?? [])],
    filesystem: level.filesystem ?? "none",
    mounts: typeof level.mounts === "object" ? level.mounts.map((mount) => ({ ...mount })) : [],
    gateway_api_scopes: [...(level.gateway_api_scopes ?? [])],
    secret_slots: [...(level.secret_slots ?? [])],
    capabilities: [...(level.capabilities ?? [])],
    tools: level.tools === undefined || level.tools === null ? null : [...level.tools],
    ...(level.host === true ? { host: true } : {}),
  };
}

/** Adds the policy's mapping from granted secret slots to environment variables. */
export function withSecretEnv(grant: Grant, { secret_env }: Binding["policy"]): Grant {
  if (secret_env === undefined) return grant;
  const mapped = Object.entries(secret_env).filter(([slot]) => grant.secret_slots.includes(slot));
  return mapped.length === 0 ? grant : { ...grant, secret_env: Object.fromEntries(mapped) };
}

export function digestGrant(grant: Grant): string {
  return hash("sha256", canonicalJson(grant), "hex");
}

function manifestLevel(item: PluginExport, pack: Package): Level {
  const requested = item.permissions;
  return {
    network: requested.network,
    filesystem: requested.filesystem,
    gateway_api_scopes:
      item.kind === "harness"
        ? harnessScopes(item.harness, requested.gateway_api_scopes)
        : requested.gateway_api_scopes,
    capabilities: pack.manifest.runtime.capabilities,
    host: item.kind === "tool" && item.tool.target === "host",
    ...(requested.allowed_domains === undefined ? {} : { allowed_domains: requested.allowed_domains }),
  };
}

/**
 * The entry of `supports` that a harness must declare to receive each scope. A scope without an entry here, other than
 * `runs:write`, is never withheld.
 */
const REQUIRED_SUPPORT: Partial<Record<DelegationScope, (typeof HARNESS_SUPPORTS)[number]>> = {
  "sessions:write": "branch_session",
  "chains:write": "branch_session",
  "compactions:write": "compact",
  "tools:invoke": "tool",
};

function harnessScopes(
  { mode, supports }: Extract<PluginExport, { kind: "harness" }>["harness"],
  requested: readonly DelegationScope[],
): DelegationScope[] {
  const starts_runs =
    mode !== "hosted" && (supports.includes("continue") || supports.includes("branch_session"));
  return requested.filter((scope) => {
    // A harness with its own agent loop writes its transcript to the conversation that it continues.
    if (scope === "chains:write" && mode === "hosted" && supports.includes("continue")) return true;
    const support = REQUIRED_SUPPORT[scope];
    if (support !== undefined) return supports.includes(support);
    return scope !== "runs:write" || starts_runs;
  });
}

/** Only the binding's policy allows mounts, capabilities and the host, so those that it does not list are withheld. */
function bindingLevel(binding: Binding): Level {
  const { policy } = binding;
  const narrowed = policy.permissions;
  return {
    mounts: policy.mounts ?? false,
    host: policy.host_target === true,
    capabilities: policy.capabilities ?? [],
    ...(policy.allowed_domains === undefined ? {} : { allowed_domains: policy.allowed_domains }),
    ...(narrowed?.network === undefined ? {} : { network: narrowed.network }),
    ...(narrowed?.filesystem === undefined ? {} : { filesystem: narrowed.filesystem }),
    ...(narrowed?.gateway_api_scopes === undefined
      ? {}
      : { gateway_api_scopes: narrowed.gateway_api_scopes }),
    ...(narrowed?.secret_slots === undefined ? {} : { secret_slots: narrowed.secret_slots }),
  };
}

function hostLevel(host: HostPolicy): Level {
  return {
    ...(host.min_class === undefined ? {} : { class: host.min_class }),
    ...(host.network === undefined ? {} : { network: host.network }),
    ...(host.default_domains === undefined ? {} : { allowed_domains: host.default_domains }),
    ...(host.mounts === undefined ? {} : { mounts: host.mounts }),
  };
}
