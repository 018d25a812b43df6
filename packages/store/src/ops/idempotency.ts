/**
 * A row without `status` is a claim in progress; one with it is a stored answer. A claim whose request died is
 * free again after stale_ms, an answer after expires_at.
 */
import { type Dialect, locked, type Op, sql } from "../op.ts";

export interface BeginIdempotent {
  org_id: string;
  project_id: string;
  key: string;
  digest: string;
  now: number;
  stale_ms: number;
  /** Until when an abandoned claim may lie about before the sweep takes it. */
  expires_at: number;
}

export type BeginAnswer =
  | { state: "new" }
  | { state: "done"; status: number; body: string }
  | { state: "in_progress" }
  | { state: "conflict" };

export function* beginIdempotent(p: BeginIdempotent, dialect: Dialect): Op<BeginAnswer> {
  const key = [p.org_id, p.project_id, p.key];
  for (;;) {
    const claimed = yield sql(
      `insert into idempotency (org_id, project_id, key, digest, claimed_at, expires_at)
        values ($1, $2, $3, $4, $5, $6) on conflict do nothing returning key`,
      [...key, p.digest, p.now, p.expires_at],
    );
    if (claimed.length > 0) return { state: "new" };
    const [row] = yield sql(
      `select digest, claimed_at, expires_at, status, body from idempotency
        where org_id = $1 and project_id = $2 and key = $3 ${locked(dialect, "for update")}`,
      key,
    );
    // Another node gave the claim up in between: try to be the one who takes it.
    if (row === undefined) continue;
    const free =
      row.status === null
        ? (row.claimed_at as number) + p.stale_ms <= p.now
        : (row.expires_at as number) <= p.now;
    if (free) {
      yield sql(
        `update idempotency set digest = $4, claimed_at = $5, expires_at = $6, status = null, body = null
          where org_id = $1 and project_id = $2 and key = $3`,
        [...key, p.digest, p.now, p.expires_at],
      );
      return { state: "new" };
    }
    if (row.digest !== p.digest) return { state: "conflict" };
    if (row.status === null) return { state: "in_progress" };
    return { state: "done", status: row.status as number, body: row.body as string };
  }
}

export function* finishIdempotent(p: {
  org_id: string;
  project_id: string;
  key: string;
  status: number;
  body: string;
  expires_at: number;
}): Op<void> {
  yield sql(
    `update idempotency set status = $4, body = $5, expires_at = $6
      where org_id = $1 and project_id = $2 and key = $3 and status is null`,
    [p.org_id, p.project_id, p.key, p.status, p.body, p.expires_at],
  );
}

export function* abandonIdempotent(org_id: string, project_id: string, key: string): Op<void> {
  yield sql("delete from idempotency where org_id = $1 and project_id = $2 and key = $3 and status is null", [
    org_id,
    project_id,
    key,
  ]);
}

/** Bounded, so that a sweep never holds up the writers behind it; the store repeats it. */
export function* sweepIdempotent(now: number, limit: number): Op<number> {
  const gone = yield sql(
    `delete from idempotency where (org_id, project_id, key) in (
      select org_id, project_id, key from idempotency where expires_at <= $1 limit $2) returning 1 as one`,
    [now, limit],
  );
  return gone.length;
}
