/** Reads the destination of a SOCKS5 client (RFC 1928): no credentials, CONNECT only. */
import type { Destination } from "../destinations/destination.ts";
import { type PeekResult, peek } from "./peek.ts";
import type { ProxyConnection } from "./proxy-connection.ts";

const REPLY = { granted: 0, failed: 1, forbidden: 2, unreachable: 4, command: 7 } as const;
const CONNECT = 1;
const [V4, NAME, V6] = [1, 3, 4];
const NO_CREDENTIALS = 0;

interface SocksRequest {
  command: number;
  destination: Destination;
}

/** Null for a malformed or unsupported request, which is recorded as refused. */
export async function readSocks(connection: ProxyConnection): Promise<Destination | null> {
  const { client } = connection;
  const methods = await peek(client, 257, readMethods);
  if (methods === null || !methods.includes(NO_CREDENTIALS)) {
    connection.refuse("protocol.refused", "SOCKS");
    client.write(Buffer.from([5, 0xff]));
    connection.finish();
    return null;
  }
  client.write(Buffer.from([5, NO_CREDENTIALS]));
  const request = await peek(client, 262, readRequest);
  if (request === null) {
    connection.refuse("request.malformed", "SOCKS");
    answerSocks(connection, "failed");
    return null;
  }
  connection.destination = request.destination;
  if (request.command === CONNECT) return request.destination;
  connection.refuse("protocol.refused", `SOCKS command ${request.command}`);
  answerSocks(connection, "command");
  return null;
}

export function answerSocks(connection: ProxyConnection, reply: keyof typeof REPLY): void {
  const bytes = Buffer.from([5, REPLY[reply], 0, V4!, 0, 0, 0, 0, 0, 0]);
  connection.client.write(bytes);
  if (reply !== "granted") connection.finish();
}

function readMethods(bytes: Buffer): PeekResult<Buffer> | undefined {
  const used = 2 + (bytes[1] ?? 0);
  return bytes.length < 2 || bytes.length < used
    ? undefined
    : { value: Buffer.from(bytes.subarray(2, used)), used };
}

function readRequest(bytes: Buffer): PeekResult<SocksRequest | null> | undefined {
  if (bytes.length < 5) return undefined;
  const kind = bytes[3]!;
  const length = kind === V4 ? 4 : kind === V6 ? 16 : bytes[4]!;
  const start = kind === NAME ? 5 : 4;
  const used = start + length + 2;
  if (bytes[0] !== 5 || (kind !== V4 && kind !== V6 && kind !== NAME))
    return { value: null, used: bytes.length };
  if (bytes.length < used) return undefined;
  const body = bytes.subarray(start, start + length);
  const host =
    kind === V4 ? body.join(".") : kind === V6 ? formatV6(body) : body.toString("latin1").toLowerCase();
  return { value: { command: bytes[1]!, destination: { host, port: bytes.readUInt16BE(used - 2) } }, used };
}

function formatV6(bytes: Buffer): string {
  return Array.from({ length: 8 }, (_, index) => bytes.readUInt16BE(index * 2).toString(16)).join(":");
}
