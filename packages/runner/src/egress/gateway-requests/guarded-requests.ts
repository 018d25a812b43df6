/**
 * HTTP requests that the gateway makes for a binding, under the rules for a plugin's egress: the name must be
 * granted, its addresses are checked, and the connection goes to one of the checked addresses.
 */
import { type ClientRequest, Agent as HttpAgent, request as plainRequest } from "node:http";
import { Agent as HttpsAgent, request as secureRequest } from "node:https";
import type { LookupFunction } from "node:net";
import { BackplaneError } from "@backplane/contract";
import { type AddressRule, publicExceptOwn } from "../destinations/address.ts";
import { allowList } from "../destinations/allow-list.ts";
import { type Destination, formatDestination, hostKind } from "../destinations/destination.ts";
import { decideEgress, type EgressPolicy } from "../destinations/policy.ts";
import { describeRefusal } from "../destinations/refusals.ts";
import { type Resolver, systemResolver } from "../destinations/resolve.ts";

export interface OutboundRules {
  /** `host:port` or `host:*` values that the operator allows although they are not public. */
  operator_allows?: readonly string[];
  resolve?: Resolver;
  forbidden?: AddressRule;
}

export interface GuardedRequests {
  /** A violated rule is reported as a BackplaneError. Redirects are not followed. */
  open(options: { method: string; headers: Record<string, string> }): Promise<ClientRequest>;
  close(): void;
}

const CONNECT_MS = 10_000;
const MAX_SOCKETS = 64;

/** Creates requests to one URL, under the allowed domains of one grant. */
export function createGuardedRequests(
  url: URL,
  allowed_domains: readonly string[],
  rules: OutboundRules = {},
): GuardedRequests {
  const secure = url.protocol === "https:";
  const destination: Destination = {
    host: url.hostname.replace(/^\[|\]$/g, "").toLowerCase(),
    port: url.port === "" ? (secure ? 443 : 80) : Number(url.port),
  };
  const policy: EgressPolicy = {
    allowed: allowList(allowed_domains),
    operator_allows: new Set((rules.operator_allows ?? []).map((name) => name.toLowerCase())),
    gateway: { names: new Set(), reachable: false },
    resolve: rules.resolve ?? systemResolver(CONNECT_MS),
    forbidden: rules.forbidden ?? publicExceptOwn(),
  };
  const settings = { keepAlive: true, maxSockets: MAX_SOCKETS, timeout: 0 };
  const agent = secure ? new HttpsAgent(settings) : new HttpAgent(settings);
  const lookup: LookupFunction = (_name, { all }, onLookup) => {
    checkAddresses(policy, destination).then(
      (addresses) => {
        const list = addresses.map((address) => ({ address, family: address.includes(":") ? 6 : 4 }));
        if (all === true) onLookup(null, list);
        else onLookup(null, list[0]!.address, list[0]!.family);
      },
      (error: NodeJS.ErrnoException) => onLookup(error, "", 0),
    );
  };
  return {
    open: async ({ method, headers }) => {
      // Node connects to a literal address without a lookup.
      if (hostKind(destination.host) !== "name") await checkAddresses(policy, destination);
      const request = secure ? secureRequest : plainRequest;
      return request(url, { method, headers, agent, lookup, setDefaultHeaders: true });
    },
    close: () => agent.destroy(),
  };
}

async function checkAddresses(policy: EgressPolicy, destination: Destination): Promise<readonly string[]> {
  const verdict = await decideEgress(policy, destination);
  if (verdict.kind === "target") return verdict.target.addresses;
  const name = formatDestination(destination);
  if (verdict.kind !== "refused") {
    throw new BackplaneError("launch_failed", `The host name ${destination.host} cannot be resolved.`);
  }
  throw new BackplaneError(
    "launch_failed",
    `The gateway does not connect to ${name}: ${describeRefusal(verdict.reason, verdict.detail)}`,
    {
      details: { reason: verdict.reason, destination: name },
      fix:
        verdict.reason === "domain.not_allowed"
          ? `Allow it: backplane binding set ID --domains ${name}`
          : `If you trust this destination, ask an operator to add "${name}" to egress.allow_private in backplane.toml.`,
    },
  );
}
