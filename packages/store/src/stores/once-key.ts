/** An Idempotency-Key whose answer is the id of what it made, in the transaction that makes it. */
import { IDEMPOTENCY_TTL_MS } from "@backplane/contract";
import type { OnceKey, Scope } from "@backplane/kernel/ports";
import type { Backend } from "../backend.ts";
import type { TakeKey } from "../ops/idempotency.ts";
import { projectColumn } from "./scope.ts";

const ACCEPTED = 202;

export function encodeOnce(backend: Backend, scope: Scope, body: string, once: OnceKey): TakeKey {
  return {
    org_id: scope.org_id,
    project_id: projectColumn(scope.project_id),
    key: once.key,
    digest: once.digest,
    now: backend.at(once.now),
    stale_ms: once.stale_ms,
    ttl_ms: IDEMPOTENCY_TTL_MS,
    status: ACCEPTED,
    body,
  };
}
