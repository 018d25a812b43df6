/**
 * What was asked for and not given. Whoever opened the session is told of each and writes it down: the name may hold
 * a secret of the call, and only the call knows its secrets. Bounded: an attacker writes it.
 */
import type { Clock } from "@backplane/ports";

export const REFUSAL_REASONS = {
  "request.malformed": "The request cannot be read.",
  "name.invalid": "This is no host name.",
  "address.literal": "Addresses are not dialled, only names; whatever their notation.",
  "domain.not_allowed": "The grant does not allow this host and port.",
  "address.forbidden": "The name leads to an address that is not public.",
  "host.mismatch": "The Host header names another host than the connection.",
  "sni.missing": "The TLS handshake names no host, so it cannot be checked.",
  "sni.mismatch": "The TLS handshake names another host than the connection.",
  "sni.hidden": "The TLS handshake hides its host (ECH), so it cannot be checked.",
  "tls.malformed": "Port 443 is for TLS, and this is no TLS handshake.",
  "protocol.refused": "This way of asking is not served here.",
  "gateway.no_scope": "The gateway can be reached only with a delegated scope.",
  "gateway.no_token": "The gateway is reached from here with the delegated token only.",
  "gateway.route": "This is none of the gateway's delegated routes.",
  "limit.connections": "Too many connections.",
  "limit.bytes": "The bytes of this invocation are used up.",
  "limit.time": "The connection took too long.",
} as const;

export type RefusalReason = keyof typeof REFUSAL_REASONS;

export interface Refusal {
  /** As it was asked for, unprintable characters escaped; empty when it never came to a name. */
  host: string;
  port: number;
  reason: RefusalReason;
  /** More of the reason, e.g. which address or which other name. */
  detail?: string;
  /** ms since the epoch. */
  at: number;
}

const MAX_TEXT = 300;

export class RefusalRecord {
  readonly #kept: Refusal[] = [];
  readonly #clock: Clock;
  readonly #tell: (refusal: Refusal) => void;
  readonly #room: number;
  count = 0;

  constructor(room: number, clock: Clock, tell: (refusal: Refusal) => void) {
    this.#room = room;
    this.#clock = clock;
    this.#tell = tell;
  }

  add(asked: { host: string; port: number }, reason: RefusalReason, detail?: string): void {
    this.count++;
    const refusal: Refusal = {
      host: printable(asked.host),
      port: asked.port,
      reason,
      ...(detail === undefined ? {} : { detail: printable(detail) }),
      at: this.#clock.now(),
    };
    if (this.#kept.length < this.#room) this.#kept.push(refusal);
    this.#tell(refusal);
  }

  clear(): void {
    this.#kept.length = 0;
    this.count = 0;
  }

  list(): Refusal[] {
    return this.#kept.map((refusal) => ({ ...refusal }));
  }
}

export function printable(text: string): string {
  const escaped = text.replaceAll(
    /[^\x20-\x7e]/g,
    (char) => `\\u${char.charCodeAt(0).toString(16).padStart(4, "0")}`,
  );
  return escaped.length > MAX_TEXT ? `${escaped.slice(0, MAX_TEXT)}…` : escaped;
}
