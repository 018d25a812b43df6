/**
 * From the levels of one call to its grant. Everything but the caller's own level depends only on a binding's
 * generation and the host's policy, so it is computed once per generation (see invoke/export-plan.ts).
 */

import { hash } from "node:crypto";
import type { Binding, ExecutionClass, Grant, InvokeBody, Package, PluginExport } from "@backplane/contract";
import { canonicalJson } from "@backplane/contract";
import type { Caller, HostPolicy, Scope } from "@backplane/ports";
import { intersect, type Level } from "./intersect.ts";

export function standingLevel(
  bound: { binding: Binding; package: Package; export: PluginExport },
  isolation: ExecutionClass,
  scope: Scope,
  host: HostPolicy,
): Level {
  const { binding, export: item } = bound;
  const met = intersect(
    { class: isolation, ...manifestLevel(item, bound.package) },
    bindingLevel(binding),
    host.orgs?.get(scope.org_id) ?? {},
    host.projects?.get(`${scope.org_id}/${scope.project_id}`) ?? {},
    hostLevel(host),
  );
  // Domains that nobody has named reach nothing, and a caller who names some must not be the one who gives them.
  return { ...met, allowed_domains: met.allowed_domains ?? [] };
}

/** Where the gateway itself may go for a scope: what its host, org and project leave. */
export function gatewayDomains(scope: Scope, host: HostPolicy): readonly string[] {
  const met = intersect(
    { network: "egress", allowed_domains: ["*"] },
    host.orgs?.get(scope.org_id) ?? {},
    host.projects?.get(`${scope.org_id}/${scope.project_id}`) ?? {},
    hostLevel(host),
  );
  return met.network === "egress" ? (met.allowed_domains ?? []) : [];
}

/** undefined when the caller narrows nothing, which is the usual call. */
export function callerLevel(caller: Caller, narrow: InvokeBody["narrow"]): Level | undefined {
  const parent = caller.delegation?.grant;
  if (parent === undefined) return narrow;
  // A call from inside the sandbox does not lead out of it.
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

/** Recorded with the grant: which of its slots the operator delivers by environment, and under which names. */
export function withSecretEnv(grant: Grant, { secret_env }: Binding["policy"]): Grant {
  if (secret_env === undefined) return grant;
  const given = Object.entries(secret_env).filter(([slot]) => grant.secret_slots.includes(slot));
  return given.length === 0 ? grant : { ...grant, secret_env: Object.fromEntries(given) };
}

export function digestGrant(grant: Grant): string {
  return hash("sha256", canonicalJson(grant), "hex");
}

function manifestLevel(item: PluginExport, pack: Package): Level {
  const asked = item.permissions;
  return {
    network: asked.network,
    filesystem: asked.filesystem,
    gateway_api_scopes: asked.gateway_api_scopes,
    secret_slots: asked.secret_slots,
    capabilities: pack.manifest.runtime.capabilities,
    host: item.kind === "tool" && item.tool.target === "host",
    ...(asked.allowed_domains === undefined ? {} : { allowed_domains: asked.allowed_domains }),
  };
}

/** Mounts and capabilities come from the operator alone: what the binding does not name is not given. */
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
