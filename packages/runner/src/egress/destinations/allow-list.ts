/**
 * The allowed domains of a grant, interpreted as in the registry: `name`, `*.name` (any subdomain, not the name itself)
 * and `*`, each with an optional `:port`. Without a port all ports are allowed.
 */
import type { Destination } from "./destination.ts";

interface Pattern {
  host: string;
  port: string | null;
}

export interface AllowList {
  allows(destination: Destination): boolean;
  /** True if every name is allowed at this port; the name of a connection then need not be checked. */
  allowsAnyName(port: number): boolean;
  /** Exact names with their ports; an empty list means every port. */
  exact: readonly { host: string; ports: readonly number[] }[];
}

export function allowList(domains: readonly string[]): AllowList {
  const patterns = domains.map(parse);
  const exact = new Map<string, number[]>();
  for (const { host, port } of patterns) {
    if (host.startsWith("*")) continue;
    const ports = exact.get(host) ?? [];
    exact.set(host, port === null ? ports : [...ports, Number(port)]);
  }
  const on_every_port = new Set(patterns.filter(({ port }) => port === null).map(({ host }) => host));
  return {
    allows: ({ host, port }) =>
      patterns.some((pattern) => matchesHost(pattern.host, host) && matchesPort(pattern, port)),
    allowsAnyName: (port) => patterns.some((pattern) => pattern.host === "*" && matchesPort(pattern, port)),
    exact: [...exact].map(([host, ports]) => ({ host, ports: on_every_port.has(host) ? [] : ports })),
  };
}

function matchesHost(pattern: string, host: string): boolean {
  if (pattern === "*" || pattern === host) return true;
  return pattern.startsWith("*.") && host.endsWith(pattern.slice(1));
}

function matchesPort(pattern: Pattern, port: number): boolean {
  return pattern.port === null || pattern.port === String(port);
}

function parse(text: string): Pattern {
  const lower = text.toLowerCase();
  const colon = lower.lastIndexOf(":");
  if (colon < 0) return { host: lower, port: null };
  return { host: lower.slice(0, colon), port: lower.slice(colon + 1) };
}
