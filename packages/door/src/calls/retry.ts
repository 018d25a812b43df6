/**
 * inv.retry: what may be tried again. `retryable_failure` where the effect class allows a second run under
 * the same key; a failure of the boundary that its code calls passing, and that never reached the plugin's
 * code, whatever the effect class. `failed` never. A delivered hook is tried again by its job instead.
 */

import { type EffectClass, ERROR_CODES, isErrorCode } from "@backplane/contract";
import type { InvocationRow, RunOutcome } from "@backplane/ports";

export function mayRetry(row: InvocationRow, outcome: RunOutcome): boolean {
  if (isDelivery(row)) return false;
  if (outcome.status === "retryable_failure") return !outcome.dispatched || repeatable(row.effect_class);
  if (outcome.status !== "failed" || outcome.dispatched) return false;
  // A start that ran out of time, whatever it is called, came to nothing and may fare better.
  if (outcome.error?.details?.slow_start === true) return true;
  const code = outcome.error?.code;
  if (code === "timeout" || code === "crash_loop" || !isErrorCode(code)) return false;
  return ERROR_CODES[code].family === "wire" && ERROR_CODES[code].retryable;
}

/** Whether a second run of the same execution does no harm. */
export function repeatable(effect_class: EffectClass): boolean {
  return effect_class === "read_only" || effect_class === "idempotent_write";
}

export function isDelivery(row: InvocationRow): boolean {
  return row.export_kind === "hook" && row.requested_by === "kernel";
}

export function backoff(base_ms: number, attempt: number): number {
  return base_ms * 2 ** (attempt - 1);
}
