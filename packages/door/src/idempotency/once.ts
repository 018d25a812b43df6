/** A create with an Idempotency-Key runs once; a repeat gets the stored answer. Our own failures are not kept. */

import { BackplaneError } from "@backplane/contract";
import type { Caller, KernelDeps } from "@backplane/ports";

/** A claim whose request died with its gateway frees itself after this. */
export const STALE_MS = 10 * 60_000;

export async function once(
  deps: Pick<KernelDeps, "store" | "clock" | "log">,
  caller: Caller,
  key: string,
  digest: string,
  work: () => Promise<{ status: number; body: string }>,
): Promise<{ status: number; body: string; replayed: boolean }> {
  const { idempotency } = deps.store;
  const { scope } = caller;
  const found = await idempotency.begin(scope, key, digest, deps.clock.now(), STALE_MS);
  if (found.state === "done") return { status: found.status, body: found.body, replayed: true };
  if (found.state === "conflict") throw new BackplaneError("idempotency.conflict");
  if (found.state === "in_progress") throw new BackplaneError("idempotency.in_progress");
  let answer: { status: number; body: string };
  try {
    answer = await work();
  } catch (error) {
    await giveUp(deps, caller, key);
    throw error;
  }
  if (answer.status >= 500 || answer.status === 429) await giveUp(deps, caller, key);
  else await idempotency.finish(scope, key, answer.status, answer.body, deps.clock.now());
  return { ...answer, replayed: false };
}

/** The key is free again at once; if not, its claim grows stale. */
async function giveUp(deps: Pick<KernelDeps, "store" | "log">, caller: Caller, key: string): Promise<void> {
  try {
    await deps.store.idempotency.abandon(caller.scope, key);
  } catch (error) {
    deps.log.warn({ err: error }, "an idempotency key was not freed; its claim expires by itself");
  }
}
