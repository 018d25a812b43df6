/**
 * Determines whether a grant is wider than an earlier one. Trust that was given to a call (by an allow rule, or by a
 * binding that waives approval) is valid only while the call can do no more than it could when the trust was given.
 */

import {
  canonicalJson,
  FILESYSTEM_ACCESS,
  type Grant,
  type Json,
  type Permissions,
} from "@backplane/contract";
import { normalizeDomains } from "./domains.ts";
import { intersect, type Level, moreIsolated } from "./intersect.ts";

export function widerFilesystem(
  a: Permissions["filesystem"],
  b: Permissions["filesystem"],
): Permissions["filesystem"] {
  return FILESYSTEM_ACCESS.indexOf(a) >= FILESYSTEM_ACCESS.indexOf(b) ? a : b;
}

/** Lists the parts in which `after` allows more than `before`. */
export function listWiderParts(before: Grant, after: Grant): string[] {
  const after_level = levelOf(after);
  // A part is wider exactly where the intersection of both takes something away from it.
  const common = intersect(levelOf(before), after_level);
  const fields = Object.keys(after_level) as (keyof Level)[];
  const wider: string[] = fields.filter(
    (field) => canonicalSet(common[field]) !== canonicalSet(after_level[field]),
  );
  if (after.tools === null && before.tools !== null) wider.push("tools");
  const variables = Object.entries(after.secret_env ?? {});
  if (variables.some(([slot, variable]) => before.secret_env?.[slot] !== variable)) wider.push("secret_env");
  return wider.sort();
}

/** Returns a grant that covers all given grants, for an allow rule about several tools. Null for an empty list. */
export function combineGrants(grants: readonly Grant[]): Grant | null {
  return grants.length === 0 ? null : grants.reduce(combineTwo);
}

function combineTwo(a: Grant, b: Grant): Grant {
  const union = <T>(x: readonly T[], y: readonly T[]): T[] => [
    ...new Map([...x, ...y].map((item) => [canonicalJson(item as Json), item])).values(),
  ];
  return {
    class: moreIsolated(a.class, b.class) === a.class ? b.class : a.class,
    network: a.network === "egress" ? "egress" : b.network,
    allowed_domains: normalizeDomains([...a.allowed_domains, ...b.allowed_domains]),
    filesystem: widerFilesystem(a.filesystem, b.filesystem),
    mounts: union(a.mounts, b.mounts),
    gateway_api_scopes: union(a.gateway_api_scopes, b.gateway_api_scopes),
    secret_slots: union(a.secret_slots, b.secret_slots),
    capabilities: union(a.capabilities, b.capabilities),
    tools: a.tools === null || b.tools === null ? null : union(a.tools, b.tools),
    ...(a.secret_env === undefined && b.secret_env === undefined
      ? {}
      : { secret_env: { ...a.secret_env, ...b.secret_env } }),
    ...(a.host === true || b.host === true ? { host: true } : {}),
  };
}

function levelOf({ secret_env: _env, tools, ...grant }: Grant): Level {
  return {
    ...grant,
    allowed_domains: normalizeDomains(grant.allowed_domains),
    host: grant.host === true,
    ...(tools === null ? {} : { tools }),
  };
}

/** The lists of a grant are sets. */
function canonicalSet(value: Level[keyof Level]): string {
  if (!Array.isArray(value)) return canonicalJson((value ?? null) as Json);
  return canonicalJson([...new Set(value.map((item) => canonicalJson(item as Json)))].sort());
}
