/**
 * Decides which destination may be dialed. A `Target` holds the addresses that were checked, and only those are
 * dialed, so DNS rebinding between check and use has no effect.
 */
import type { AddressRule } from "./address.ts";
import type { AllowList } from "./allow-list.ts";
import { type Destination, formatDestination, hostKind } from "./destination.ts";
import type { RefusalReason } from "./refusals.ts";
import type { Resolver } from "./resolve.ts";

export interface Target extends Destination {
  addresses: readonly string[];
  /** The grant allows every name at this port, so the name in the TLS handshake need not be checked. */
  any_name: boolean;
}

export type EgressVerdict =
  | { kind: "target"; target: Target }
  | { kind: "gateway" }
  | { kind: "refused"; reason: RefusalReason; detail?: string }
  /** Allowed, but the name cannot be resolved. */
  | { kind: "unknown" };

export interface EgressPolicy {
  allowed: AllowList;
  /** `host:port` or `host:*` values that the operator allows although they are not public. */
  operator_allows: ReadonlySet<string>;
  /** The names of the gateway, and whether this grant may reach it. */
  gateway: { names: ReadonlySet<string>; reachable: boolean };
  resolve: Resolver;
  forbidden: AddressRule;
}

export async function decideEgress(policy: EgressPolicy, destination: Destination): Promise<EgressVerdict> {
  const kind = hostKind(destination.host);
  const name = formatDestination(destination);
  if (kind === "invalid") return { kind: "refused", reason: "name.invalid" };
  if (policy.gateway.names.has(name)) {
    return policy.gateway.reachable ? { kind: "gateway" } : { kind: "refused", reason: "gateway.no_scope" };
  }
  const trusted = isAllowedByOperator(policy.operator_allows, name);
  if (kind === "address" && !trusted) return { kind: "refused", reason: "address.literal" };
  if (!policy.allowed.allows(destination)) return { kind: "refused", reason: "domain.not_allowed" };
  // These names mean this machine by definition (RFC 6761), so they are not resolved.
  if (!trusted && /(?:^|\.)localhost$/.test(destination.host)) {
    return { kind: "refused", reason: "address.forbidden", detail: "loopback" };
  }
  const addresses = await policy.resolve(destination.host, trusted).catch(() => []);
  if (addresses.length === 0) return { kind: "unknown" };
  for (const address of trusted ? [] : addresses) {
    const reason = policy.forbidden(address);
    if (reason !== null)
      return { kind: "refused", reason: "address.forbidden", detail: `${address} (${reason})` };
  }
  return {
    kind: "target",
    target: { ...destination, addresses, any_name: policy.allowed.allowsAnyName(destination.port) },
  };
}

/** Whether the operator allowed this destination or every port of its host. */
export function isAllowedByOperator(operator_allows: ReadonlySet<string>, name: string): boolean {
  return operator_allows.has(name) || operator_allows.has(`${name.slice(0, name.lastIndexOf(":"))}:*`);
}
