/**
 * Destinations of a grant that egress refuses although the grant lists them: this machine and IP addresses, unless the
 * operator allows them. Names that only turn out to be private when they are resolved are refused at the first call.
 */
import type { SchemaIssue } from "@backplane/ports";

export function findRefusedDestinations(
  allowed_domains: readonly string[],
  allowed_by_operator: readonly string[],
): SchemaIssue[] {
  return allowed_domains.filter(isRefusedByDefault).flatMap((domain) => {
    const { host, port } = splitDestination(domain);
    const allowed = allowed_by_operator
      .map(splitDestination)
      .some((destination) => destination.host === host && coversPort(destination.port, port));
    if (allowed) return [];
    const description = isLocal(host) ? "this machine" : "an IP address";
    const entry = port === null ? `${host}:PORT` : domain;
    const message = `${domain} is ${description}, so connections to it are refused; the operator can add "${entry}" to egress.allow_private in backplane.toml`;
    return [{ path: "/policy/allowed_domains", message }];
  });
}

function isRefusedByDefault(domain: string): boolean {
  const { host } = splitDestination(domain);
  return isLocal(host) || /(?:^|\.)(?:\d+|0x[0-9a-f]*)$/.test(host);
}

function isLocal(host: string): boolean {
  return /(?:^|\.)localhost$/.test(host) || /^127(?:\.\d{1,3}){3}$/.test(host);
}

/** A destination without a port covers every port, so one allowed port makes it useful. */
function coversPort(allowed: string | null, port: string | null): boolean {
  return port === null || allowed === "*" || allowed === port;
}

function splitDestination(destination: string): { host: string; port: string | null } {
  const text = destination.toLowerCase();
  const colon = text.lastIndexOf(":");
  return colon < 0 ? { host: text, port: null } : { host: text.slice(0, colon), port: text.slice(colon + 1) };
}
