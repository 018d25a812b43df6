/**
 * Work that takes its Idempotency-Key in the transaction that begins it, so whoever dies when, a repeat finds what
 * the key began, or nothing has happened. A repeat is told of that work as it is now.
 */

import { BackplaneError, codeOf } from "@backplane/contract";
import type { Caller, KernelDeps, OnceKey } from "@backplane/ports";
import { STALE_MS } from "./once.ts";

export type OnceDeps = Pick<KernelDeps, "clock"> & { store: Pick<KernelDeps["store"], "idempotency"> };

/** `began` is what `begin` answers, or null; then `before` is what the key was answered with. */
export async function openOnce<T>(
  deps: OnceDeps,
  caller: Caller,
  key: string,
  digest: string,
  begin: (once: OnceKey) => Promise<T>,
): Promise<{ began: T; before: null } | { began: null; before: string }> {
  const before = await find(deps, caller, key, digest);
  if (before !== null) return { began: null, before };
  try {
    const once = { scope: caller.scope, key, digest, now: deps.clock.now(), stale_ms: STALE_MS };
    return { began: await begin(once), before: null };
  } catch (error) {
    if (codeOf(error) !== "idempotency.in_progress") throw error;
    // Another request with this key was first; what it began is on disk by now.
    const first = await find(deps, caller, key, digest);
    if (first === null) throw error;
    return { began: null, before: first };
  }
}

async function find(deps: OnceDeps, caller: Caller, key: string, digest: string): Promise<string | null> {
  const { store, clock } = deps;
  const found = await store.idempotency.find(caller.scope, key, digest, clock.now(), STALE_MS);
  if (found.state === "conflict") throw new BackplaneError("idempotency.conflict");
  if (found.state === "in_progress") throw new BackplaneError("idempotency.in_progress");
  return found.state === "done" ? found.body : null;
}
