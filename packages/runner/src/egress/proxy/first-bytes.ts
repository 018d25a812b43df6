/**
 * Classifies the first bytes of a client in a tunnel. Port 443 must be TLS and port 80 HTTP. On other ports both
 * are recognized, so that their host names are checked as well; anything else passes.
 */
import type { RefusalReason } from "../destinations/refusals.ts";
import { readClientHello } from "./client-hello.ts";

export type FirstBytes =
  | { kind: "tls" }
  | { kind: "http" }
  | { kind: "other" }
  | { kind: "refused"; reason: RefusalReason; detail?: string };

/** Returns undefined if more bytes are needed. `any_name` means that the grant allows every name at this port. */
export function classifyFirstBytes(
  bytes: Buffer,
  destination: { host: string; port: number },
  any_name: boolean,
): FirstBytes | undefined {
  if (destination.port === 80) return { kind: "http" };
  if (destination.port === 443 || looksLikeTls(bytes)) return checkHello(bytes, destination.host, any_name);
  return classifyFirstLine(bytes);
}

function looksLikeTls(bytes: Buffer): boolean {
  return bytes[0] === 0x16 && (bytes.length === 1 || bytes[1] === 3);
}

function checkHello(bytes: Buffer, host: string, any_name: boolean): FirstBytes | undefined {
  const hello = readClientHello(bytes);
  if (hello.state === "more") return undefined;
  if (hello.state === "malformed") return { kind: "refused", reason: "tls.malformed" };
  if (hello.name !== null && hello.name.toLowerCase() !== host) {
    return { kind: "refused", reason: "sni.mismatch", detail: hello.name };
  }
  if (any_name) return { kind: "tls" };
  if (hello.hidden) return { kind: "refused", reason: "sni.hidden" };
  return hello.name === null ? { kind: "refused", reason: "sni.missing" } : { kind: "tls" };
}

/** Decides by the first line that is not empty, or by a byte that is not text. */
function classifyFirstLine(bytes: Buffer): FirstBytes | undefined {
  let start = 0;
  while (bytes[start] === 0x0d || bytes[start] === 0x0a) start++;
  for (let at = start; at < bytes.length; at++) {
    const byte = bytes[at]!;
    if (byte === 0x0a) {
      const version = /\sHTTP\/(\d)[.\d]*\s*$/i.exec(bytes.toString("latin1", start, at));
      if (version === null) return { kind: "other" };
      // The host of HTTP/2 without TLS cannot be read here.
      return version[1] === "1" ? { kind: "http" } : { kind: "refused", reason: "protocol.refused" };
    }
    if ((byte < 0x20 && byte !== 0x09 && byte !== 0x0d) || byte > 0x7e) return { kind: "other" };
  }
  return undefined;
}
