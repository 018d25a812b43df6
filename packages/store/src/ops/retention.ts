/**
 * Removes rows whose retention has ended, in bounded steps, so that no other writer waits long. Invocation rows, tapes
 * and the audit log are never removed. For the clock see nowSql.
 */
import { nowSql, type Op, type SqlDialect, sql } from "./op.ts";

export interface SweepStep {
  now: number | null;
  keep_ms: number;
  limit: number;
}

export function* sweepJobs(
  p: SweepStep & { state: "done" | "dead" | "discarded" },
  dialect: SqlDialect,
): Op<number> {
  const deleted = yield sql(
    `delete from jobs where pos in (
      select pos from jobs where state = $1 and ended_at <= ${nowSql(dialect, "$2")} - $3 order by ended_at limit $4)
      returning pos`,
    [p.state, p.now, p.keep_ms, p.limit],
  );
  return deleted.length;
}

/** Removes the oldest events, up to the cursor of the slowest reader. Without any cursor nothing is removed. */
export function* sweepOutbox(p: SweepStep, dialect: SqlDialect): Op<number> {
  const seq = dialect === "sqlite" ? "pos" : "seq";
  const deleted = yield sql(
    `delete from outbox where pos in (
      select pos from (
        select pos, occurred_at from outbox where ${seq} <= (select min(seq) from cursors) order by ${seq} limit $3
      ) oldest where occurred_at <= ${nowSql(dialect, "$1")} - $2)
      returning pos`,
    [p.now, p.keep_ms, p.limit],
  );
  return deleted.length;
}

/**
 * A token is revoked when its call ends; this removes the tokens that a crash left behind. They are kept for `keep_ms`
 * after they expire, because a running call can outlast its token.
 */
export function* sweepDelegations(p: SweepStep, dialect: SqlDialect): Op<number> {
  const deleted = yield sql(
    `delete from delegations where token_hash in (
      select token_hash from delegations where expires_at <= ${nowSql(dialect, "$1")} - $2 limit $3)
      returning token_hash`,
    [p.now, p.keep_ms, p.limit],
  );
  return deleted.length;
}

const CALLS_PER_STEP = 20;

/**
 * Removes progress events of calls that ended before `ended_before`. Visits the calls by id, that is by age, after
 * `after` and before `id_before`. The returned `after` is where to continue; null if all calls were visited.
 */
export function* sweepProgress(
  p: { after: string; id_before: string; ended_before: string; limit: number },
  dialect: SqlDialect,
): Op<{ removed: number; after: string | null }> {
  const ended =
    dialect === "sqlite" ? "json_extract(i.outcome, '$.ended_at')" : "i.outcome::json->>'ended_at'";
  let after = p.after;
  let removed = 0;
  for (let visited = 0; visited < CALLS_PER_STEP && removed < p.limit; visited++) {
    const [next] = yield sql(
      "select min(invocation_id) as id from invocation_events where invocation_id > $1 and invocation_id < $2",
      [after, p.id_before],
    );
    const id = (next?.id ?? null) as string | null;
    if (id === null) return { removed, after: null };
    const retained = yield sql(
      `select i.id from invocations i where i.id = $1 and (i.outcome is null or ${ended} > $2)`,
      [id, p.ended_before],
    );
    if (retained.length === 0) {
      const remaining = p.limit - removed;
      const deleted = yield sql(
        `delete from invocation_events where invocation_id = $1 and seq in (
          select seq from invocation_events where invocation_id = $1 order by seq limit $2) returning seq`,
        [id, remaining],
      );
      removed += deleted.length;
      // This call may have more events.
      if (deleted.length === remaining) break;
    }
    after = id;
  }
  return { removed, after };
}
