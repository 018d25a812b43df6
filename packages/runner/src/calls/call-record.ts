/** The parts of a call's record besides its result: refused connections and stderr, both without secrets. */
import {
  type EgressRecord,
  INVOCATION_LIMITS,
  type InvocationContext,
  type JsonObject,
  REDACTED,
} from "@backplane/contract";
import { addDistinct, REFUSAL_REASONS, type Refusal } from "../egress/destinations/refusals.ts";
import type { Worker } from "../pool/worker.ts";
import { createCallRedactor, GATEWAY_TOKEN, refusalRedactor, secretsOf } from "../secrets/redact.ts";

/** Keeps the first distinct refusals in full and counts all of them. */
export class CallRefusals {
  #refused = 0;
  readonly #exclusive: Refusal[] = [];
  readonly #shared: Refusal[] = [];

  add(refusal: Refusal, shared: boolean): void {
    this.#refused += refusal.count ?? 1;
    const [target, other] = shared ? [this.#shared, this.#exclusive] : [this.#exclusive, this.#shared];
    addDistinct(target, refusal, INVOCATION_LIMITS.refusals - other.length);
  }

  /** Null when nothing was refused; `secrets` is then not called. */
  record(secrets: () => readonly string[]): EgressRecord | null {
    if (this.#refused === 0) return null;
    const refusals = [
      ...this.#exclusive.map((refusal) => recordOf(refusal)),
      ...this.#shared.map((refusal) => ({ ...recordOf(refusal), shared: true as const })),
    ].sort((a, b) => a.at.localeCompare(b.at));
    const record = { refused: this.#refused, refusals };
    return refusalRedactor(secrets()).json(record as unknown as JsonObject) as unknown as EgressRecord;
  }
}

function recordOf({
  host,
  port,
  reason,
  detail,
  at,
  count,
}: Refusal): Omit<EgressRecord["refusals"][number], "shared"> {
  return {
    host: withoutToken(host),
    port,
    reason,
    message: REFUSAL_REASONS[reason],
    ...(detail === undefined ? {} : { detail: withoutToken(detail) }),
    at: new Date(at).toISOString(),
    ...(count === undefined ? {} : { count }),
  };
}

/** Removes all delegation tokens, because a shared process has received the tokens of all its calls. */
function withoutToken(text: string): string {
  return text.replace(GATEWAY_TOKEN, REDACTED);
}

/**
 * Returns the stderr of the process since the call started, as far as it is still buffered. Calls that share a process
 * share its stderr, so the secrets of the other calls are redacted as well.
 */
export function readStderrTail(worker: Worker, from: number, context: InvocationContext): string | null {
  const ring = worker.process.stderr;
  if (ring.total <= from) return null;
  const bytes = ring.since(from);
  // Skips the rest of a character that was cut in two.
  let start = 0;
  while (start < 3 && start < bytes.length && (bytes[start]! & 0xc0) === 0x80) start++;
  const text = bytes.toString("utf8", start);
  const redactor = createCallRedactor([...secretsOf(context), ...worker.recent_secrets]);
  return redactor.excerpt(text).replace(GATEWAY_TOKEN, REDACTED);
}
