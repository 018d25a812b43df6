/**
 * Strict parsing of the host and port that a plugin requests. Each name has one spelling, so that the checked, the
 * resolved and the transmitted name are the same. A name that some program could parse as an address counts as an
 * address.
 */
import { isIP, isIPv6 } from "node:net";

export interface Destination {
  /** Lower case, without brackets. */
  host: string;
  port: number;
}

export type HostKind = "name" | "address" | "invalid";

const LABEL = /^[a-z0-9_]([a-z0-9_-]{0,61}[a-z0-9_])?$/;
/** The URL standard's "ends in a number" check: inet_aton and similar functions parse such a host as an address. */
const NUMBER = /^([0-9]+|0x[0-9a-f]*)$/;

export function hostKind(host: string): HostKind {
  if (isIP(host) !== 0) return "address";
  if (host.length === 0 || host.length > 253) return "invalid";
  const labels = host.split(".");
  if (!labels.every((label) => LABEL.test(label))) return "invalid";
  return NUMBER.test(labels.at(-1)!) ? "address" : "name";
}

/**
 * Parses `host` and `[v6]`, each with or without `:port`. Null if the text has another form or no valid port; the host
 * can still be invalid.
 */
export function readAuthority(text: string, default_port: number | null): Destination | null {
  const match = /^(?:\[([^\]]*)\]|([^:[\]@/?#\\]*))(?::([0-9]{1,5}))?$/.exec(text);
  if (match === null) return null;
  const [, bracketed, plain, digits] = match;
  if (bracketed !== undefined && !isIPv6(bracketed)) return null;
  const port = digits === undefined ? default_port : Number(digits);
  if (port === null || port < 1 || port > 65_535) return null;
  return { host: (bracketed ?? plain!).toLowerCase(), port };
}

/** Parses the absolute form of a proxy request. Only http, since https uses CONNECT. */
export function readAbsolute(url: string): (Destination & { path: string }) | null {
  const match = /^http:\/\/([^/?#]*)(.*)$/is.exec(url);
  const destination = match === null ? null : readAuthority(match[1]!, 80);
  if (destination === null || match![2]!.includes("#")) return null;
  const rest = match![2]!;
  return { ...destination, path: rest.startsWith("/") ? rest : `/${rest}` };
}

/** The destination of an https URL, which some old clients send to a proxy in the absolute form. */
export function readHttps(url: string): Destination | null {
  const match = /^https:\/\/([^/?#]*)/i.exec(url);
  return match === null ? null : readAuthority(match[1]!, 443);
}

export function formatDestination({ host, port }: Destination, default_port = 0): string {
  const name = host.includes(":") ? `[${host}]` : host;
  return port === default_port ? name : `${name}:${port}`;
}
