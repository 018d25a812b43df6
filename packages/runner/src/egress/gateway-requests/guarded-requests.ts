/**
 * HTTP requests that the gateway itself makes for a binding: the same rule as for a plugin's own way out. The name must
 * be granted, its addresses are checked, and the connection goes to one of the very addresses that were.
 */
import { type ClientRequest, Agent as HttpAgent, request as plainRequest } from "node:http";
import { Agent as HttpsAgent, request as secureRequest } from "node:https";
import type { LookupFunction } from "node:net";
import { BackplaneError } from "@backplane/contract";
import { type AddressRule, publicAndForeign } from "../destinations/address.ts";
import { allowList } from "../destinations/allow-list.ts";
import { type Asked, kindOf, spell } from "../destinations/destination.ts";
import { decide, type Policy } from "../destinations/policy.ts";
import { REFUSAL_REASONS } from "../destinations/refusals.ts";
import { type Resolver, systemResolver } from "../destinations/resolve.ts";

export interface OutwardRules {
  /** `host:port` that the operator opens although it is no public address. */
  operator_allows?: readonly string[];
  resolve?: Resolver;
  forbidden?: AddressRule;
}

export interface GuardedRequests {
  /** Its errors are BackplaneErrors where a rule was broken. Redirects are not followed. */
  open(options: { method: string; headers: Record<string, string> }): Promise<ClientRequest>;
  close(): void;
}

const CONNECT_MS = 10_000;
const SOCKETS = 64;

/** For one address of the web, under the domains of one grant. */
export function guardedRequests(
  url: URL,
  allowed_domains: readonly string[],
  rules: OutwardRules = {},
): GuardedRequests {
  const secure = url.protocol === "https:";
  const asked: Asked = {
    host: url.hostname.replace(/^\[|\]$/g, "").toLowerCase(),
    port: url.port === "" ? (secure ? 443 : 80) : Number(url.port),
  };
  const policy: Policy = {
    allowed: allowList(allowed_domains),
    operator_allows: new Set((rules.operator_allows ?? []).map((place) => place.toLowerCase())),
    gateway: { names: new Set(), reachable: false },
    resolve: rules.resolve ?? systemResolver(CONNECT_MS),
    forbidden: rules.forbidden ?? publicAndForeign(),
  };
  const settings = { keepAlive: true, maxSockets: SOCKETS, timeout: 0 };
  const agent = secure ? new HttpsAgent(settings) : new HttpAgent(settings);
  const lookup: LookupFunction = (_name, { all }, found) => {
    addressesOf(policy, asked).then(
      (addresses) => {
        const list = addresses.map((address) => ({ address, family: address.includes(":") ? 6 : 4 }));
        if (all === true) found(null, list);
        else found(null, list[0]!.address, list[0]!.family);
      },
      (error: NodeJS.ErrnoException) => found(error, "", 0),
    );
  };
  return {
    open: async ({ method, headers }) => {
      // A literal address is connected to without any look-up.
      if (kindOf(asked.host) !== "name") await addressesOf(policy, asked);
      const request = secure ? secureRequest : plainRequest;
      return request(url, { method, headers, agent, lookup, setDefaultHeaders: true });
    },
    close: () => agent.destroy(),
  };
}

async function addressesOf(policy: Policy, asked: Asked): Promise<readonly string[]> {
  const verdict = await decide(policy, asked);
  if (verdict.kind === "target") return verdict.target.addresses;
  const place = spell(asked);
  if (verdict.kind !== "refused") {
    throw new BackplaneError("launch_failed", `${place} cannot be found: there is no such name.`);
  }
  const detail = verdict.detail === undefined ? "" : ` (${verdict.detail})`;
  throw new BackplaneError(
    "launch_failed",
    `${place} is not dialled: ${REFUSAL_REASONS[verdict.reason]}${detail}`,
    {
      details: { reason: verdict.reason, place },
      fix:
        verdict.reason === "domain.not_allowed"
          ? `Grant it: backplane binding set ID --domains ${place}`
          : `If you trust the place, an operator adds "${place}" to egress.allow_private in backplane.toml.`,
    },
  );
}
