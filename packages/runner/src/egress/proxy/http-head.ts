/** Heads of HTTP messages on their way through: which fields travel, how long they are, whom they name. */
import type { IncomingMessage } from "node:http";
import { type Asked, readAuthority } from "../destinations/destination.ts";

/** Fields between two neighbours (RFC 9110 7.6.1), and those meant for a proxy. */
const NEIGHBOURLY = [
  "connection",
  "expect",
  "http2-settings",
  "keep-alive",
  "proxy-authenticate",
  "proxy-authorization",
  "proxy-connection",
  "te",
  "trailer",
  "transfer-encoding",
  "upgrade",
];

/**
 * Nobody's own affair, whatever Connection says: a token that was checked here would not arrive, and a body without its
 * length would be another message.
 */
const STAYS = new Set(["authorization", "content-length"]);

/** Pairs of name and value, in order and as they were spelled. */
export function travelling(message: IncomingMessage, without: readonly string[] = []): [string, string][] {
  const words = (message.headers.connection ?? "").split(",").map((word) => word.trim().toLowerCase());
  const named = words.filter((word) => !STAYS.has(word));
  const left = new Set([...NEIGHBOURLY, ...without, ...named]);
  return pairs(message.rawHeaders).filter(([name]) => !left.has(name.toLowerCase()));
}

export function pairs(raw: readonly string[]): [string, string][] {
  const found: [string, string][] = [];
  for (let at = 0; at + 1 < raw.length; at += 2) found.push([raw[at]!, raw[at + 1]!]);
  return found;
}

/** About what the head takes on the wire. */
export function headBytes(first: string, fields: readonly (readonly [string, string])[]): number {
  return fields.reduce((sum, [name, value]) => sum + name.length + value.length + 4, first.length + 4);
}

/** The Host field names what was asked for; a port may be left out. */
export function namesHost(request: IncomingMessage, asked: Asked): boolean {
  const fields = pairs(request.rawHeaders).filter(([name]) => name.toLowerCase() === "host");
  if (fields.length !== 1) return false;
  const named = readAuthority(fields[0]![1], asked.port);
  return named !== null && named.host === asked.host && named.port === asked.port;
}
