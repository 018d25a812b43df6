/** The attempts of a call before its latest one. They help people to investigate a delay. */
import { type EarlierAttempt, INVOCATION_LIMITS } from "@backplane/contract";
import type { InvocationRow } from "@backplane/ports";

/** The error message of a plugin may be long. */
const MAX_MESSAGE_CHARS = 1_000;

export interface EndedAttempt {
  started_at: string;
  ended_at: number | null;
  retried_at: number;
  reason: EarlierAttempt["reason"];
  /** Redacted; null if the plugin reported no error. */
  error: { code: string; message: string } | null;
}

/** Returns the row's earlier attempts and `attempt`. At the limit the oldest attempts are dropped. */
export function addAttempt(row: InvocationRow, attempt: EndedAttempt): EarlierAttempt[] {
  const { started_at, ended_at, retried_at, reason, error } = attempt;
  const { code, message } = error ?? { code: "plugin_retryable", message: "" };
  const added: EarlierAttempt = {
    started_at,
    ended_at: ended_at === null ? null : new Date(ended_at).toISOString(),
    retried_at: new Date(retried_at).toISOString(),
    reason,
    error: { code, message: message.slice(0, MAX_MESSAGE_CHARS) },
  };
  return [...(row.earlier_attempts ?? []), added].slice(-INVOCATION_LIMITS.earlier_attempts);
}

/** When the current attempt of the row began. */
export function attemptStartOf({ earlier_attempts, started_at, created_at }: InvocationRow): string {
  return earlier_attempts?.at(-1)?.retried_at ?? started_at ?? created_at;
}
