/**
 * Idempotency keys. A row without `status` is a claim in progress; a row with a status is a stored response. A key can
 * be claimed again when its claim is older than stale_ms, because the request died, or when its response has expired.
 * For the clock see nowSql.
 */
import { nowSql, type Op, type Row, refuse, rowLock, type SqlDialect, sql } from "./op.ts";

interface KeyClaim {
  org_id: string;
  project_id: string;
  key: string;
  digest: string;
  now: number | null;
  stale_ms: number;
  /** How long a response, or an abandoned claim, is kept. */
  ttl_ms: number;
}

export type KeyState =
  | { state: "new" }
  | { state: "done"; status: number; body: string }
  | { state: "in_progress" }
  | { state: "conflict" };

const keyRowSql = (dialect: SqlDialect, lock: string) => `select digest, status, body,
    case when case when status is null then claimed_at + $5 else expires_at end <= ${nowSql(dialect, "$4")}
      then 1 else 0 end as free
  from idempotency where org_id = $1 and project_id = $2 and key = $3 ${lock}`;

export function* beginIdempotent(p: KeyClaim, dialect: SqlDialect): Op<KeyState> {
  const key = [p.org_id, p.project_id, p.key];
  const now = nowSql(dialect, "$5");
  for (;;) {
    const claimed = yield sql(
      `insert into idempotency (org_id, project_id, key, digest, claimed_at, expires_at)
        values ($1, $2, $3, $4, ${now}, ${now} + $6) on conflict do nothing returning key`,
      [...key, p.digest, p.now, p.ttl_ms],
    );
    if (claimed.length > 0) return { state: "new" };
    const [row] = yield sql(keyRowSql(dialect, rowLock(dialect, "for update")), [...key, p.now, p.stale_ms]);
    // The row was deleted in between, so try to claim the key again.
    if (row === undefined) continue;
    const state = toKeyState(row, p.digest);
    if (state.state === "new") {
      yield sql(
        `update idempotency set digest = $4, claimed_at = ${now}, expires_at = ${now} + $6, status = null, body = null
          where org_id = $1 and project_id = $2 and key = $3`,
        [...key, p.digest, p.now, p.ttl_ms],
      );
    }
    return state;
  }
}

/** Reads the state of a key without claiming it. */
export function* findIdempotent(p: Omit<KeyClaim, "ttl_ms">, dialect: SqlDialect): Op<KeyState> {
  const [row] = yield sql(keyRowSql(dialect, ""), [p.org_id, p.project_id, p.key, p.now, p.stale_ms]);
  return row === undefined ? { state: "new" } : toKeyState(row, p.digest);
}

function toKeyState(row: Row, digest: string): KeyState {
  if (row.free === 1) return { state: "new" };
  if (row.digest !== digest) return { state: "conflict" };
  if (row.status === null) return { state: "in_progress" };
  return { state: "done", status: row.status as number, body: row.body as string };
}

export interface CompletedKey extends KeyClaim {
  status: number;
  body: string;
}

/** Claims a key and stores its response in the transaction of the work itself, so that neither exists without the other. */
export function* completeKey(p: CompletedKey, dialect: SqlDialect): Op<void> {
  const now = nowSql(dialect, "$5");
  const claimed = yield sql(
    `insert into idempotency (org_id, project_id, key, digest, claimed_at, expires_at, status, body)
      values ($1, $2, $3, $4, ${now}, ${now} + $6, $7, $8)
      on conflict (org_id, project_id, key) do update set digest = excluded.digest, claimed_at = excluded.claimed_at,
        expires_at = excluded.expires_at, status = excluded.status, body = excluded.body
      where case when idempotency.status is null then idempotency.claimed_at + $9 else idempotency.expires_at end <= ${now}
      returning key`,
    [p.org_id, p.project_id, p.key, p.digest, p.now, p.ttl_ms, p.status, p.body, p.stale_ms],
  );
  if (claimed.length === 0)
    refuse("idempotency.in_progress", "Another request with this key is in progress.");
}

/** Like `completeKey`, but adds values that the work has just created, such as ids, to the response. */
export function* completeKeyWith(
  p: CompletedKey,
  created: Record<string, string | number>,
  dialect: SqlDialect,
): Op<void> {
  const body = JSON.stringify({ ...(JSON.parse(p.body) as object), ...created });
  yield* completeKey({ ...p, body }, dialect);
}

export function* finishIdempotent(
  p: {
    org_id: string;
    project_id: string;
    key: string;
    status: number;
    body: string;
    now: number | null;
    ttl_ms: number;
  },
  dialect: SqlDialect,
): Op<void> {
  yield sql(
    `update idempotency set status = $4, body = $5, expires_at = ${nowSql(dialect, "$6")} + $7
      where org_id = $1 and project_id = $2 and key = $3 and status is null`,
    [p.org_id, p.project_id, p.key, p.status, p.body, p.now, p.ttl_ms],
  );
}

export function* abandonIdempotent(org_id: string, project_id: string, key: string): Op<void> {
  yield sql("delete from idempotency where org_id = $1 and project_id = $2 and key = $3 and status is null", [
    org_id,
    project_id,
    key,
  ]);
}

/** Removes at most `limit` rows, so that other writers do not wait long; the store repeats it. */
export function* sweepIdempotent(now: number | null, limit: number, dialect: SqlDialect): Op<number> {
  const removed = yield sql(
    `delete from idempotency where (org_id, project_id, key) in (
      select org_id, project_id, key from idempotency where expires_at <= ${nowSql(dialect, "$1")} limit $2)
      returning 1 as one`,
    [now, limit],
  );
  return removed.length;
}
