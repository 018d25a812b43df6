/** When a registry may be asked again after a failure. */
import { setTimeout as sleep } from "node:timers/promises";
import type { RegistryLimits } from "./registry-limits.ts";

/** Resolves after this time, or as soon as the signal is aborted. */
export type Wait = (ms: number, signal: AbortSignal) => Promise<void>;

export const waitFor: Wait = async (ms, signal) => {
  await sleep(ms, undefined, { signal }).catch(() => {});
};

/** Whether the same request may succeed later, although the registry has responded with this status. */
export function isTransientStatus(status: number): boolean {
  return status < 300 || status >= 500 || [408, 425, 429].includes(status);
}

/**
 * The time before the next attempt. It doubles with each attempt and varies, so that clients that were interrupted
 * together do not return together. A registry that sends Retry-After extends it, up to a limit.
 */
export function retryDelay(attempt: number, retry_after: string | undefined, limits: RegistryLimits): number {
  const longest = Math.min(limits.retry_ms * 2 ** (attempt - 1), limits.max_retry_ms);
  const delay = longest * (0.5 + Math.random() / 2);
  return Math.max(delay, Math.min(parseRetryAfter(retry_after), limits.max_retry_after_ms));
}

/** In milliseconds; 0 for a header that is absent or invalid, or a time in the past. */
function parseRetryAfter(header = ""): number {
  const text = header.trim();
  const ms = /^\d{1,10}$/.test(text) ? Number(text) * 1_000 : Date.parse(text) - Date.now();
  return Number.isNaN(ms) ? 0 : Math.max(0, ms);
}
