/**
 * What a client begins to say through a tunnel. 443 is TLS and 80 is HTTP, whatever is said; elsewhere both are
 * recognised, so that their names are checked there too, and anything else passes as it is.
 */

import type { RefusalReason } from "../destinations/refusals.ts";
import { readClientHello } from "./client-hello.ts";

export type Opening =
  | { kind: "tls" }
  | { kind: "http" }
  | { kind: "other" }
  | { kind: "refused"; reason: RefusalReason; detail?: string };

/** Undefined: too little was said yet. `open`: any name would do. */
export function readOpening(
  bytes: Buffer,
  asked: { host: string; port: number },
  open: boolean,
): Opening | undefined {
  if (asked.port === 80) return { kind: "http" };
  if (asked.port === 443 || looksLikeTls(bytes)) return checkHello(bytes, asked.host, open);
  return readLine(bytes);
}

function looksLikeTls(bytes: Buffer): boolean {
  return bytes[0] === 0x16 && (bytes.length === 1 || bytes[1] === 3);
}

function checkHello(bytes: Buffer, host: string, open: boolean): Opening | undefined {
  const hello = readClientHello(bytes);
  if (hello.state === "more") return undefined;
  if (hello.state === "malformed") return { kind: "refused", reason: "tls.malformed" };
  if (hello.name !== null && hello.name.toLowerCase() !== host) {
    return { kind: "refused", reason: "sni.mismatch", detail: hello.name };
  }
  if (open) return { kind: "tls" };
  if (hello.hidden) return { kind: "refused", reason: "sni.hidden" };
  return hello.name === null ? { kind: "refused", reason: "sni.missing" } : { kind: "tls" };
}

/** The first line that is not empty decides; a byte that no line of text holds decides at once. */
function readLine(bytes: Buffer): Opening | undefined {
  let start = 0;
  while (bytes[start] === 0x0d || bytes[start] === 0x0a) start++;
  for (let at = start; at < bytes.length; at++) {
    const byte = bytes[at]!;
    if (byte === 0x0a) {
      const version = /\sHTTP\/(\d)[.\d]*\s*$/i.exec(bytes.toString("latin1", start, at));
      if (version === null) return { kind: "other" };
      // HTTP/2 without TLS carries its host where this cannot be read.
      return version[1] === "1" ? { kind: "http" } : { kind: "refused", reason: "protocol.refused" };
    }
    if ((byte < 0x20 && byte !== 0x09 && byte !== 0x0d) || byte > 0x7e) return { kind: "other" };
  }
  return undefined;
}
