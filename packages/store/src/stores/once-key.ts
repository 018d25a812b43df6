/** An Idempotency-Key whose answer is the ids of what it made, in the transaction that makes it. */
import { IDEMPOTENCY_TTL_MS } from "@backplane/contract";
import type { OnceKey } from "@backplane/ports";
import type { Backend } from "../backend/backend.ts";
import type { TakeKey } from "../ops/idempotency.ts";
import { projectColumn } from "./scope.ts";

const ACCEPTED = 202;

/** `body` left out: JSON that the operation adds to. */
export function encodeOnce(backend: Backend, once: OnceKey | undefined, body?: string): TakeKey | null {
  if (once === undefined) return null;
  const { scope, answer = {} } = once;
  return {
    org_id: scope.org_id,
    project_id: projectColumn(scope.project_id),
    key: once.key,
    digest: once.digest,
    now: backend.at(once.now),
    stale_ms: once.stale_ms,
    ttl_ms: IDEMPOTENCY_TTL_MS,
    status: ACCEPTED,
    body: body ?? JSON.stringify(answer),
  };
}
