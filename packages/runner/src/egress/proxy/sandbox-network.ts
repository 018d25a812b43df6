/**
 * The sandbox configuration for egress: listeners that sandbox-init opens inside and passes to the gateway, names for
 * /etc/hosts, and environment variables. It does not depend on a call, so that processes can be prewarmed.
 */
import { isIPv4 } from "node:net";
import type { Grant } from "@backplane/contract";
import { allowList } from "../destinations/allow-list.ts";
import { hostKind } from "../destinations/destination.ts";

export interface EgressListener {
  /** `proxy`: CONNECT, absolute URIs and SOCKS5. `named`: the dialed address identifies the name. */
  role: "proxy" | "named" | "gateway";
  address: string;
  port: number;
}

export interface SandboxNetwork {
  listeners: readonly EgressListener[];
  hosts: readonly { address: string; name: string }[];
  env: Readonly<Record<string, string>>;
  /** The value of gateway.base_url for the plugin; null if it may not reach the gateway. */
  gateway_url: string | null;
}

export type EgressGrant = Pick<Grant, "network" | "allowed_domains" | "gateway_api_scopes">;

const PROXY = { address: "127.0.0.1", port: 3128 } as const;
/** Used when the gateway does not listen on loopback over plain HTTP, or listens on the port of the proxy. */
const GATEWAY = { address: "127.0.0.1", port: 7420 } as const;
const DEFAULT_PORTS = [80, 443];
/** Half of MAX_LISTENERS in sandbox-init.h. Further ports are reached through the proxy. */
const MAX_PORTS = 128;
const LOOPBACK = /^127(\.\d{1,3}){3}$/;

export function sandboxNetwork(
  grant: EgressGrant,
  gateway: { base_url: string } | null = null,
): SandboxNetwork {
  const may_reach_gateway = gateway !== null && grant.gateway_api_scopes.length > 0;
  const gateway_route = may_reach_gateway ? gatewayListener(gateway.base_url) : null;
  const gateway_listeners: EgressListener[] = gateway_route === null ? [] : [gateway_route.listener];
  const gateway_url = gateway_route?.url ?? null;
  if (grant.network === "none") return { listeners: gateway_listeners, hosts: [], env: {}, gateway_url };

  const exact = allowList(grant.allowed_domains).exact;
  // Every address is local in the sandbox (sandbox-init/trace.c), so a listener also accepts connections to other
  // addresses.
  const reached = exact.filter(({ host }) => hostKind(host) === "name" || isIPv4(host));
  const names = exact.filter(({ host }) => hostKind(host) === "name" || LOOPBACK.test(host));
  const reserved_ports = new Set([PROXY.port as number, ...gateway_listeners.map(({ port }) => port)]);
  const ports = new Set(reached.flatMap(({ ports }) => (ports.length === 0 ? DEFAULT_PORTS : ports)));
  // One listener per port for all names; the dialed address distinguishes them.
  const named = [...ports]
    .filter((port) => port > 0 && port < 65_536 && !reserved_ports.has(port))
    .sort((a, b) => a - b)
    .slice(0, MAX_PORTS);
  return {
    listeners: [
      { role: "proxy", ...PROXY },
      ...gateway_listeners,
      ...named.map((port) => ({ role: "named" as const, address: "0.0.0.0", port })),
    ],
    hosts: names.map(({ host }, index) => ({ address: namedAddress(host, index), name: host })),
    env: proxyVariables(),
    gateway_url,
  };
}

/** 127.64.0.1 and up. Clients never use a proxy for loopback names, so these keep their own addresses. */
function namedAddress(host: string, index: number): string {
  if (LOOPBACK.test(host)) return host;
  if (host === "localhost") return PROXY.address;
  return `127.64.${(index + 1) >> 8}.${(index + 1) & 0xff}`;
}

/** ALL_PROXY is not a SOCKS URL, because some Python clients without SOCKS support would refuse to start. */
function proxyVariables(): Record<string, string> {
  const url = `http://${PROXY.address}:${PROXY.port}`;
  const direct = "127.0.0.1,localhost,::1";
  const upper_case = { HTTP_PROXY: url, HTTPS_PROXY: url, ALL_PROXY: url, NO_PROXY: direct };
  const lower_case = Object.fromEntries(
    Object.entries(upper_case).map(([name, value]) => [name.toLowerCase(), value]),
  );
  return { ...upper_case, ...lower_case, NODE_USE_ENV_PROXY: "1" };
}

function gatewayListener(base_url: string): { listener: EgressListener; url: string } {
  const url = new URL(base_url);
  const port = url.port === "" ? 80 : Number(url.port);
  const loopback = /^(localhost|127(\.\d+){3}|\[::1\])$/.test(url.hostname);
  if (url.protocol === "http:" && loopback && port !== PROXY.port) {
    const address = url.hostname === "localhost" ? "127.0.0.1" : url.hostname.replaceAll(/[[\]]/g, "");
    return { listener: { role: "gateway", address, port }, url: base_url };
  }
  const path = url.pathname === "/" ? "" : url.pathname;
  return {
    listener: { role: "gateway", ...GATEWAY },
    url: `http://${GATEWAY.address}:${GATEWAY.port}${path}`,
  };
}
