/** inv.deadline: the first that is set of caller's, binding's and export's; capped by export and host. */

import type { Binding, PluginExport } from "@backplane/contract";
import type { InvocationRow } from "@backplane/ports";

export function timeoutFor(
  asked: number | undefined,
  binding: Pick<Binding, "policy">,
  item: PluginExport,
  host_max_ms: number,
): number {
  const wanted = asked ?? binding.policy.timeout_ms ?? item.default_timeout_ms;
  return Math.min(wanted, item.max_timeout_ms ?? host_max_ms, host_max_ms);
}

/** A call that may run again gets a chance to, also when its gateway was away for longer than its deadline. */
const LEAST_MS = 5_000;

/**
 * What is left to a call whose gateway died. No monotonic clock outlives a process, so the wall clock says how much
 * is used; it may have jumped, so it takes neither more than all but the least, nor gives any time back.
 */
export function timeLeft(
  row: Pick<InvocationRow, "timeout_ms" | "started_at" | "created_at">,
  now: number,
): number {
  const used = now - Date.parse(row.started_at ?? row.created_at);
  const least = Math.min(LEAST_MS, row.timeout_ms);
  return Math.min(Math.max(row.timeout_ms - used, least), row.timeout_ms);
}
