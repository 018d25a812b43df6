/**
 * What a plugin asks for, read strictly: one spelling per name, so that what is checked, what is resolved and what
 * the other side is told are the same. A name that some program could take for an address counts as an address.
 */
import { isIP, isIPv6 } from "node:net";

export interface Asked {
  /** Lower case, without brackets. */
  host: string;
  port: number;
}

export type HostKind = "name" | "address" | "invalid";

const LABEL = /^[a-z0-9_]([a-z0-9_-]{0,61}[a-z0-9_])?$/;
/** As the URL standard says of "ends in a number": then inet_aton and its like read the whole as an address. */
const NUMBER = /^([0-9]+|0x[0-9a-f]*)$/;

export function kindOf(host: string): HostKind {
  if (isIP(host) !== 0) return "address";
  if (host.length === 0 || host.length > 253) return "invalid";
  const labels = host.split(".");
  if (!labels.every((label) => LABEL.test(label))) return "invalid";
  return NUMBER.test(labels.at(-1)!) ? "address" : "name";
}

/** `host`, `host:port`, `[v6]:port`. Null when it is neither; the host may still be invalid. */
export function readAuthority(text: string, default_port: number | null): Asked | null {
  const found = /^(?:\[([^\]]*)\]|([^:[\]@/?#\\]*))(?::([0-9]{1,5}))?$/.exec(text);
  if (found === null) return null;
  const [, bracketed, plain, digits] = found;
  if (bracketed !== undefined && !isIPv6(bracketed)) return null;
  const port = digits === undefined ? default_port : Number(digits);
  if (port === null || port < 1 || port > 65_535) return null;
  return { host: (bracketed ?? plain!).toLowerCase(), port };
}

/** The absolute form of a proxy's request line; only http, since https goes through CONNECT. */
export function readAbsolute(url: string): (Asked & { path: string }) | null {
  const found = /^http:\/\/([^/?#]*)(.*)$/is.exec(url);
  const asked = found === null ? null : readAuthority(found[1]!, 80);
  if (asked === null || found![2]!.includes("#")) return null;
  const rest = found![2]!;
  return { ...asked, path: rest.startsWith("/") ? rest : `/${rest}` };
}

export function spell({ host, port }: Asked, default_port = 0): string {
  const name = host.includes(":") ? `[${host}]` : host;
  return port === default_port ? name : `${name}:${port}`;
}
