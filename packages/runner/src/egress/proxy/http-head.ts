/** Heads of proxied HTTP messages: which fields are forwarded, their size, and the host that they request. */
import type { IncomingMessage } from "node:http";
import { type Destination, readAuthority } from "../destinations/destination.ts";

/** Hop-by-hop fields (RFC 9110 7.6.1) and those for a proxy. */
const HOP_BY_HOP = [
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
 * Forwarded even if Connection lists them: without them a checked token would be lost, or a body would have another
 * length.
 */
const ALWAYS_END_TO_END = new Set(["authorization", "content-length"]);

/** Name and value pairs in their order and spelling. */
export function endToEndFields(
  message: IncomingMessage,
  without: readonly string[] = [],
): [string, string][] {
  const listed = (message.headers.connection ?? "").split(",").map((name) => name.trim().toLowerCase());
  const hop_by_hop = listed.filter((name) => !ALWAYS_END_TO_END.has(name));
  const dropped = new Set([...HOP_BY_HOP, ...without, ...hop_by_hop]);
  return headerPairs(message.rawHeaders).filter(([name]) => !dropped.has(name.toLowerCase()));
}

export function headerPairs(raw: readonly string[]): [string, string][] {
  const fields: [string, string][] = [];
  for (let at = 0; at + 1 < raw.length; at += 2) fields.push([raw[at]!, raw[at + 1]!]);
  return fields;
}

/** The approximate size of the head on the wire. */
export function headBytes(first: string, fields: readonly (readonly [string, string])[]): number {
  return fields.reduce((sum, [name, value]) => sum + name.length + value.length + 4, first.length + 4);
}

/** Whether the single Host field names this destination. The port may be omitted. */
export function namesHost(request: IncomingMessage, destination: Destination): boolean {
  const fields = headerPairs(request.rawHeaders).filter(([name]) => name.toLowerCase() === "host");
  if (fields.length !== 1) return false;
  const requested = readAuthority(fields[0]![1], destination.port);
  return requested !== null && requested.host === destination.host && requested.port === destination.port;
}
