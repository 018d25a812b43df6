/** What one call was refused on its way out, for its record: the first ones word for word, all of them counted. */
import { type EgressRecord, INVOCATION_LIMITS, type JsonObject } from "@backplane/contract";
import { REFUSAL_REASONS, type Refusal } from "./egress/refusals.ts";
import { DELEGATION_TOKEN, REDACTED, refusalRedactor } from "./redact.ts";

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

  /** Null: nothing was refused, and then nobody is asked for secrets. */
  record(secrets: () => readonly string[]): EgressRecord | null {
    if (this.#record === null) return null;
    return refusalRedactor(secrets()).json(this.#record as unknown as JsonObject) as unknown as EgressRecord;
  }
}

/** Of any call: those that share a process know each other's. */
function withoutToken(text: string): string {
  return text.replace(DELEGATION_TOKEN, REDACTED);
}
