import { IDEMPOTENCY_TTL_MS } from "@backplane/contract";
import type { IdempotencyClaim, IdempotencyStore } from "@backplane/ports";
import type { Backend } from "../backend/backend.ts";
import { type CompletedKey, findIdempotent } from "../ops/idempotency.ts";
import { scopeColumns } from "./scope.ts";

const SWEEP_BATCH = 500;

export function createIdempotencyStore(backend: Backend): IdempotencyStore {
  return {
    begin: (scope, key, digest, now, stale_ms) =>
      backend.write("beginIdempotent", {
        ...scopeColumns(scope),
        key,
        digest,
        now: backend.selectTime(now),
        stale_ms,
        ttl_ms: Math.max(stale_ms, IDEMPOTENCY_TTL_MS),
      }),
    find: (scope, key, digest, now, stale_ms) =>
      backend.read((dialect) =>
        findIdempotent(
          { ...scopeColumns(scope), key, digest, now: backend.selectTime(now), stale_ms },
          dialect,
        ),
      ),
    finish: (scope, key, status, body, now) =>
      backend.write("finishIdempotent", {
        ...scopeColumns(scope),
        key,
        status,
        body,
        now: backend.selectTime(now),
        ttl_ms: IDEMPOTENCY_TTL_MS,
      }),
    abandon: (scope, key) => backend.write("abandonIdempotent", { ...scopeColumns(scope), key }),
    async sweep(now) {
      for (let total = 0; ; ) {
        const removed = await backend.write("sweepIdempotent", {
          now: backend.selectTime(now),
          limit: SWEEP_BATCH,
        });
        total += removed;
        if (removed < SWEEP_BATCH) return total;
      }
    },
  };
}

const ACCEPTED = 202;

/**
 * An idempotency key whose response is stored in the transaction of the work. Without `body` the response is JSON to which
 * the operation adds the ids that it creates.
 */
export function encodeClaim(
  backend: Backend,
  once: IdempotencyClaim | undefined,
  body?: string,
): CompletedKey | null {
  if (once === undefined) return null;
  const { scope, response_fields = {} } = once;
  return {
    ...scopeColumns(scope),
    key: once.key,
    digest: once.digest,
    now: backend.selectTime(once.now),
    stale_ms: once.stale_ms,
    ttl_ms: once.ttl_ms ?? IDEMPOTENCY_TTL_MS,
    status: ACCEPTED,
    body: body ?? JSON.stringify(response_fields),
  };
}
