/**
 * From what was asked to what may be dialled. A `Target` holds the very addresses that were checked, and only they
 * are dialled afterwards: a name that changes its mind between check and use (rebinding) gains nothing.
 */
import type { AddressRule } from "./address.ts";
import type { AllowList } from "./allow-list.ts";
import { type Asked, kindOf, spell } from "./destination.ts";
import type { RefusalReason } from "./refusals.ts";
import type { Resolver } from "./resolve.ts";

export interface Target extends Asked {
  addresses: readonly string[];
  /** The grant allows every name here, so the name inside TLS decides nothing. */
  open: boolean;
}

export type Verdict =
  | { kind: "target"; target: Target }
  | { kind: "gateway" }
  | { kind: "refused"; reason: RefusalReason; detail?: string }
  /** Allowed, but there is no such name. */
  | { kind: "unknown" };

export interface Policy {
  allowed: AllowList;
  /** `host:port` or `host:*` that the operator opened although it is not public. */
  operator_allows: ReadonlySet<string>;
  /** Where the gateway is, by the names a plugin may know it under; and whether this grant leads there. */
  gateway: { names: ReadonlySet<string>; reachable: boolean };
  resolve: Resolver;
  forbidden: AddressRule;
}

export async function decide(policy: Policy, asked: Asked): Promise<Verdict> {
  const kind = kindOf(asked.host);
  const place = spell(asked);
  if (kind === "invalid") return { kind: "refused", reason: "name.invalid" };
  if (policy.gateway.names.has(place)) {
    return policy.gateway.reachable ? { kind: "gateway" } : { kind: "refused", reason: "gateway.no_scope" };
  }
  const trusted = isOpened(policy.operator_allows, place);
  if (kind === "address" && !trusted) return { kind: "refused", reason: "address.literal" };
  if (!policy.allowed.allows(asked)) return { kind: "refused", reason: "domain.not_allowed" };
  // No resolver is asked for a name that means this machine by definition (RFC 6761).
  if (!trusted && /(?:^|\.)localhost$/.test(asked.host)) {
    return { kind: "refused", reason: "address.forbidden", detail: "loopback" };
  }
  const addresses = await policy.resolve(asked.host, trusted).catch(() => []);
  if (addresses.length === 0) return { kind: "unknown" };
  for (const address of trusted ? [] : addresses) {
    const why = policy.forbidden(address);
    if (why !== null) return { kind: "refused", reason: "address.forbidden", detail: `${address} (${why})` };
  }
  return { kind: "target", target: { ...asked, addresses, open: policy.allowed.open(asked.port) } };
}

/** Whether the operator named the place, or every port of its host. */
export function isOpened(opened: ReadonlySet<string>, place: string): boolean {
  return opened.has(place) || opened.has(`${place.slice(0, place.lastIndexOf(":"))}:*`);
}
