/** The parts of a call's record besides its result: refused connections and stderr, both without secrets. */
import {
  type EgressRecord,
  INVOCATION_LIMITS,
  type InvocationContext,
  type JsonObject,
  REDACTED,
} from "@backplane/contract";
import { REFUSAL_REASONS, type Refusal } from "../egress/destinations/refusals.ts";
import type { Worker } from "../pool/worker.ts";
import { createCallRedactor, DELEGATION_TOKEN, refusalRedactor, secretsOf } from "../secrets/redact.ts";

/** Keeps the first refusals in full and counts all of them. */
export class CallRefusals {
  #record: EgressRecord | null = null;

  add({ host, port, reason, detail, at }: Refusal, shared: boolean): void {
    this.#record ??= { refused: 0, refusals: [] };
    this.#record.refused++;
    if (this.#record.refusals.length >= INVOCATION_LIMITS.refusals) return;
    this.#record.refusals.push({
      host: withoutToken(host),
      port,
      reason,
      message: REFUSAL_REASONS[reason],
      ...(detail === undefined ? {} : { detail: withoutToken(detail) }),
      at: new Date(at).toISOString(),
      ...(shared ? { shared } : {}),
    });
  }

  /** Null when nothing was refused; `secrets` is not called then. */
  record(secrets: () => readonly string[]): EgressRecord | null {
    if (this.#record === null) return null;
    return refusalRedactor(secrets()).json(this.#record as unknown as JsonObject) as unknown as EgressRecord;
  }
}

/** Removes delegation tokens of every call: calls that share a process can know each other's tokens. */
function withoutToken(text: string): string {
  return text.replace(DELEGATION_TOKEN, REDACTED);
}

/**
 * Everything that the process wrote since the call started. Calls that share a process share its stderr, so the
 * secrets of the other calls are redacted as well.
 */
export function stderrTail(worker: Worker, from: number, context: InvocationContext): string | null {
  const ring = worker.process.stderr;
  if (ring.total <= from) return null;
  const bytes = ring.since(from);
  // Skips the rest of a character that was cut in two.
  let start = 0;
  while (start < 3 && start < bytes.length && (bytes[start]! & 0xc0) === 0x80) start++;
  const text = bytes.toString("utf8", start);
  const redactor = createCallRedactor([...secretsOf(context), ...worker.recent_secrets]);
  return redactor.excerpt(text).replace(DELEGATION_TOKEN, REDACTED);
}
