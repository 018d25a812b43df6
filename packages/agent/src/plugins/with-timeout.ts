/**
 * Time limits for the work of plugins. After the limit the caller stops waiting, but the work itself may
 * continue.
 */

import { BackplaneError } from "@backplane/contract";
import type { Clock } from "@backplane/ports";

/**
 * Throws `timeout` when `work` has not ended after `ms`. A synchronous throw of `work` becomes a rejection.
 */
export async function withTimeout<T>(
  clock: Clock,
  ms: number,
  label: string,
  work: () => T | Promise<T>,
): Promise<T> {
  const { promise: timeout, reject } = Promise.withResolvers<never>();
  const timer = clock.after(ms, () =>
    reject(new BackplaneError("timeout", `${label} took longer than ${ms} ms`)),
  );
  try {
    return await Promise.race([callAsync(work), timeout]);
  } finally {
    timer.stop();
  }
}

async function callAsync<T>(work: () => T | Promise<T>): Promise<T> {
  return await work();
}
