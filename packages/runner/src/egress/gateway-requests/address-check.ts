/**
 * Applies the address rules of plugins to code inside the gateway that makes its own connections, such as the client
 * library of a model provider. Names are resolved and all addresses checked here; the caller connects to exactly these
 * addresses.
 */
import { isIP } from "node:net";
import { BackplaneError } from "@backplane/contract";
import { publicExceptOwn } from "../destinations/address.ts";
import { allowList } from "../destinations/allow-list.ts";
import { type Destination, formatDestination } from "../destinations/destination.ts";
import { decideEgress, type EgressPolicy, isAllowedByOperator } from "../destinations/policy.ts";
import { describeRefusal, type RefusalReason } from "../destinations/refusals.ts";
import { systemResolver } from "../destinations/resolve.ts";
import type { OutboundRules } from "./guarded-requests.ts";

const CONNECT_MS = 10_000;

export interface AddressCheck {
  /**
   * Returns the checked addresses. `allowed_private` lists private destinations that this caller may use in addition to
   * those of the operator. Rejects with `policy.denied` or ENOTFOUND.
   */
  resolveAddresses(destination: Destination, allowed_private: readonly string[]): Promise<readonly string[]>;
  /** Returns why a literal address is refused; null if it is allowed or if the host is a name. */
  refuseLiteral(destination: Destination, allowed_private: readonly string[]): BackplaneError | null;
}

/** `fix` explains how the destination can be allowed. */
type CheckRules = OutboundRules & { fix?: (destination: string) => string };

export function createAddressCheck(rules: CheckRules = {}): AddressCheck {
  const operator = (rules.operator_allows ?? []).map((name) => name.toLowerCase());
  const withOperator = (allowed_private: readonly string[]) => new Set([...operator, ...allowed_private]);
  const policyFor = (allowed_private: readonly string[]): EgressPolicy => ({
    // The caller decides which names may be used; this check covers the addresses only.
    allowed: allowList(["*"]),
    operator_allows: withOperator(allowed_private),
    gateway: { names: new Set(), reachable: false },
    resolve: rules.resolve ?? systemResolver(CONNECT_MS),
    forbidden: rules.forbidden ?? publicExceptOwn(),
  });
  return {
    async resolveAddresses(destination, allowed_private) {
      const verdict = await decideEgress(policyFor(allowed_private), destination);
      if (verdict.kind === "target") return verdict.target.addresses;
      if (verdict.kind === "refused") throw refusal(destination, verdict.reason, verdict.detail, rules.fix);
      throw Object.assign(new Error(`${formatDestination(destination)} cannot be resolved`), {
        code: "ENOTFOUND",
      });
    },
    // Called for every connection to a literal address, so it does not create a resolver (benchmark llm.proxy).
    refuseLiteral(destination, allowed_private) {
      if (
        isIP(destination.host) === 0 ||
        isAllowedByOperator(withOperator(allowed_private), formatDestination(destination))
      )
        return null;
      return refusal(destination, "address.literal", undefined, rules.fix);
    },
  };
}

const providerFix = () =>
  "The host's admin can allow it for one provider (backplane provider set ID --allow-private), or for everyone in egress.allow_private of backplane.toml.";

function refusal(
  destination: Destination,
  reason: RefusalReason,
  detail?: string,
  fixOf: (destination: string) => string = providerFix,
): BackplaneError {
  const name = formatDestination(destination);
  return new BackplaneError(
    "policy.denied",
    `The gateway does not connect to ${name}. ${describeRefusal(reason, detail)}`,
    { fix: fixOf(name), details: { reason, destination: name } },
  );
}
