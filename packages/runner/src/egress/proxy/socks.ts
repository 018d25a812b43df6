/** The little of SOCKS5 (RFC 1928) that names a target: no credentials, CONNECT only. */

import type { Asked } from "../destinations/destination.ts";
import type { Passage } from "./connection.ts";
import { type Peeked, peek } from "./peek.ts";

const REPLY = { granted: 0, failed: 1, forbidden: 2, unreachable: 4, command: 7 } as const;
const CONNECT = 1;
const [V4, NAME, V6] = [1, 3, 4];
const NO_CREDENTIALS = 0;

interface SocksRequest {
  command: number;
  asked: Asked;
}

/** Null: it spoke no SOCKS5 that is served here, which is recorded. */
export async function readSocks(passage: Passage): Promise<Asked | null> {
  const { client } = passage;
  const methods = await peek(client, 257, readMethods);
  if (methods === null || !methods.includes(NO_CREDENTIALS)) {
    passage.refuse("protocol.refused", "SOCKS");
    client.write(Buffer.from([5, 0xff]));
    passage.dismiss();
    return null;
  }
  client.write(Buffer.from([5, NO_CREDENTIALS]));
  const request = await peek(client, 262, readRequest);
  if (request === null) {
    passage.refuse("request.malformed", "SOCKS");
    answerSocks(passage, "failed");
    return null;
  }
  passage.asked = request.asked;
  if (request.command === CONNECT) return request.asked;
  passage.refuse("protocol.refused", `SOCKS command ${request.command}`);
  answerSocks(passage, "command");
  return null;
}

export function answerSocks(passage: Passage, how: keyof typeof REPLY): void {
  const bytes = Buffer.from([5, REPLY[how], 0, V4!, 0, 0, 0, 0, 0, 0]);
  passage.client.write(bytes);
  if (how !== "granted") passage.dismiss();
}

function readMethods(bytes: Buffer): Peeked<Buffer> | undefined {
  const used = 2 + (bytes[1] ?? 0);
  return bytes.length < 2 || bytes.length < used
    ? undefined
    : { value: Buffer.from(bytes.subarray(2, used)), used };
}

function readRequest(bytes: Buffer): Peeked<SocksRequest | null> | undefined {
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
    kind === V4 ? body.join(".") : kind === V6 ? spellV6(body) : body.toString("latin1").toLowerCase();
  return { value: { command: bytes[1]!, asked: { host, port: bytes.readUInt16BE(used - 2) } }, used };
}

function spellV6(bytes: Buffer): string {
  return Array.from({ length: 8 }, (_, at) => bytes.readUInt16BE(at * 2).toString(16)).join(":");
}
