/** A request with an Idempotency-Key takes effect once; a repeat gets the result of the first request. */

import { BackplaneError, codeOf, HARNESS_LIMITS } from "@backplane/contract";
import type { Caller, IdempotencyClaim, KernelDeps } from "@backplane/ports";

/** After this time another request may claim the key of a request that died with its gateway. */
const STALE_MS = 10 * 60_000;

interface Response {
  status: number;
  body: string;
}

/**
 * Runs `work` once per key and replays its response. A 5xx or 429 response is not kept, so the request can be retried.
 */
export async function runIdempotent(
  deps: Pick<KernelDeps, "store" | "clock" | "log">,
  caller: Caller,
  client_key: string,
  digest: string,
  work: () => Promise<Response>,
): Promise<Response & { replayed: boolean }> {
  const { idempotency } = deps.store;
  const { scope } = caller;
  const key = toScopedKey(caller, client_key);
  const key_state = await idempotency.begin(scope, key, digest, deps.clock.now(), STALE_MS);
  if (key_state.state === "done") return { status: key_state.status, body: key_state.body, replayed: true };
  if (key_state.state === "conflict") throw new BackplaneError("idempotency.conflict");
  if (key_state.state === "in_progress") throw new BackplaneError("idempotency.in_progress");
  let response: Response;
  try {
    response = await work();
  } catch (error) {
    await releaseKey(deps, caller, key);
    throw error;
  }
  if (response.status >= 500 || response.status === 429) await releaseKey(deps, caller, key);
  else await idempotency.finish(scope, key, response.status, response.body, deps.clock.now());
  return { ...response, replayed: false };
}

/**
 * The keys of a harness belong to its execution: a resumed harness, which is another call, finds what an earlier
 * attempt has started, and two executions may use the same keys.
 */
function toScopedKey({ delegation }: Caller, key: string): string {
  const execution_id = delegation?.execution_id ?? null;
  return execution_id === null ? key : `${execution_id}/${key}`;
}

async function releaseKey(
  deps: Pick<KernelDeps, "store" | "log">,
  caller: Caller,
  key: string,
): Promise<void> {
  try {
    await deps.store.idempotency.abandon(caller.scope, key);
  } catch (error) {
    deps.log.warn({ err: error }, "could not release an Idempotency-Key; its claim will expire");
  }
}

type FindDeps = Pick<KernelDeps, "clock"> & { store: Pick<KernelDeps["store"], "idempotency"> };

/**
 * Starts work that claims its key in the transaction that writes its row. No matter when the gateway crashes, a repeat
 * finds either the work of the first request or no trace of it. `result` is the result of `begin`; if the key was used
 * before, `result` is null and `stored` is the text that the first request stored with the key.
 */
export async function openIdempotent<T>(
  deps: FindDeps,
  caller: Caller,
  client_key: string,
  digest: string,
  begin: (once: IdempotencyClaim) => Promise<T>,
): Promise<{ result: T; stored: null } | { result: null; stored: string }> {
  const key = toScopedKey(caller, client_key);
  const stored = await findStored(deps, caller, key, digest);
  if (stored !== null) return { result: null, stored };
  try {
    const once = { scope: caller.scope, key, digest, now: deps.clock.now(), stale_ms: STALE_MS };
    const ttl = key === client_key ? {} : { ttl_ms: HARNESS_LIMITS.child_key_ttl_ms };
    return { result: await begin({ ...once, ...ttl }), stored: null };
  } catch (error) {
    if (codeOf(error) !== "idempotency.in_progress") throw error;
    // Another request with this key came first, and the work that it started is on disk by now.
    const first = await findStored(deps, caller, key, digest);
    if (first === null) throw error;
    return { result: null, stored: first };
  }
}

async function findStored(
  deps: FindDeps,
  caller: Caller,
  key: string,
  digest: string,
): Promise<string | null> {
  const { store, clock } = deps;
  const key_state = await store.idempotency.find(caller.scope, key, digest, clock.now(), STALE_MS);
  if (key_state.state === "conflict") throw new BackplaneError("idempotency.conflict");
  if (key_state.state === "in_progress") throw new BackplaneError("idempotency.in_progress");
  return key_state.state === "done" ? key_state.body : null;
}
