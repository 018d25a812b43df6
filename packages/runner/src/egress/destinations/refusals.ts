/**
 * Refused connections. The owner of the session is notified of each one and records it, because the host can contain a
 * secret of the call and only the owner can redact it. The list is bounded, because a plugin can cause any number of
 * refusals.
 */
import type { Clock } from "@backplane/ports";

export const REFUSAL_REASONS = {
  "request.malformed": "The request is malformed.",
  "name.invalid": "This is not a valid host name.",
  "address.literal": "Only host names can be reached, not IP addresses in any notation.",
  "domain.not_allowed": "The grant does not allow this host and port.",
  "address.forbidden": "The name resolves to an address that is not public.",
  "host.mismatch": "The Host header names a different host than the connection.",
  "sni.missing": "The TLS handshake does not name a host, so it cannot be checked.",
  "sni.mismatch": "The TLS handshake names a different host than the connection.",
  "sni.hidden": "The TLS handshake hides its host (ECH), so it cannot be checked.",
  "tunnel.missing":
    "An https URL needs a tunnel (CONNECT); the program sent it to the proxy as a plain request.",
  "tls.malformed": "Port 443 is for TLS, and this is not a TLS handshake.",
  "protocol.refused": "This protocol is not supported here.",
  "gateway.no_scope": "The gateway can only be reached with a delegated scope.",
  "gateway.no_token": "The gateway can only be reached from here with the delegated token.",
  "gateway.route": "This is not one of the gateway's delegated routes.",
  "direct.connection":
    "Nothing accepts connections at this address inside the sandbox; other hosts are reached only through its proxy.",
  "direct.datagram":
    "Nothing receives datagrams at this address inside the sandbox, and its proxy does not forward any.",
  "direct.lookup": "The sandbox has no name server; its proxy resolves the names that the grant allows.",
  "direct.unlisted":
    "More attempts were refused inside the sandbox than can be listed; the number is an estimate.",
  "limit.connections": "Too many connections or unanswered requests.",
  "limit.bytes": "The invocation has reached its limit of transferred bytes.",
  "limit.time": "The connection took too long.",
} as const;

export type RefusalReason = keyof typeof REFUSAL_REASONS;

/** Returns the reason as a sentence, with the detail in parentheses. */
export function describeRefusal(reason: RefusalReason, detail: string | undefined): string {
  const sentence = REFUSAL_REASONS[reason];
  return detail === undefined ? sentence : `${sentence.replace(/\.$/, "")} (${detail}).`;
}

export interface Refusal {
  /** The requested host, with unprintable characters escaped. Empty if no name was read. */
  host: string;
  port: number;
  reason: RefusalReason;
  /** Further information about the reason, e.g. the forbidden address or the name in the TLS handshake. */
  detail?: string;
  /** The time of the first occurrence, in milliseconds since the epoch. */
  at: number;
  /** The number of occurrences; absent if there was only one. */
  count?: number;
}

const MAX_TEXT = 300;

export class RefusalLog {
  readonly #kept: Refusal[] = [];
  readonly #clock: Clock;
  readonly #onRefusal: (refusal: Refusal) => void;
  readonly #capacity: number;
  count = 0;

  constructor(capacity: number, clock: Clock, onRefusal: (refusal: Refusal) => void) {
    this.#capacity = capacity;
    this.#clock = clock;
    this.#onRefusal = onRefusal;
  }

  add(destination: { host: string; port: number }, reason: RefusalReason, detail?: string, count = 1): void {
    this.count += count;
    const refusal: Refusal = {
      host: escapeForLog(destination.host),
      port: destination.port,
      reason,
      ...(detail === undefined ? {} : { detail: escapeForLog(detail) }),
      at: this.#clock.now(),
      ...(count === 1 ? {} : { count }),
    };
    if (this.#kept.length < this.#capacity) this.#kept.push(refusal);
    this.#onRefusal(refusal);
  }

  clear(): void {
    this.#kept.length = 0;
    this.count = 0;
  }

  list(): Refusal[] {
    return this.#kept.map((refusal) => ({ ...refusal }));
  }
}

/** Adds to the count of an equal refusal, so that retries of one connection leave room for others. */
export function addDistinct(kept: Refusal[], refusal: Refusal, capacity: number): void {
  const { host, port, reason, detail, count = 1 } = refusal;
  const known = kept.find(
    (entry) =>
      entry.host === host && entry.port === port && entry.reason === reason && entry.detail === detail,
  );
  if (known !== undefined) known.count = (known.count ?? 1) + count;
  else if (kept.length < capacity) kept.push({ ...refusal });
}

export function escapeForLog(text: string): string {
  const escaped = text.replaceAll(
    /[^\x20-\x7e]/g,
    (char) => `\\u${char.charCodeAt(0).toString(16).padStart(4, "0")}`,
  );
  return escaped.length > MAX_TEXT ? `${escaped.slice(0, MAX_TEXT)}…` : escaped;
}
