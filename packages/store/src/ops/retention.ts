/**
 * What may go after a while, a bounded step at a time, so that no writer waits for long behind one. Never touched:
 * invocation rows, tapes, audit. Whose clock counts: see nowAt.
 */
import { type Dialect, nowAt, type Op, sql } from "./op.ts";

export interface SweepStep {
  now: number | null;
  keep_ms: number;
  limit: number;
}

export function* sweepJobs(p: SweepStep & { state: "done" | "dead" }, dialect: Dialect): Op<number> {
  const gone = yield sql(
    `delete from jobs where pos in (
      select pos from jobs where state = $1 and ended_at <= ${nowAt(dialect, "$2")} - $3 order by ended_at limit $4)
      returning pos`,
    [p.state, p.now, p.keep_ms, p.limit],
  );
  return gone.length;
}

/** From the old end, no further than the slowest reader has come. Nobody has read anything: nothing goes. */
export function* sweepOutbox(p: SweepStep, dialect: Dialect): Op<number> {
  const seq = dialect === "sqlite" ? "pos" : "seq";
  const gone = yield sql(
    `delete from outbox where pos in (
      select pos from (
        select pos, occurred_at from outbox where ${seq} <= (select min(seq) from cursors) order by ${seq} limit $3
      ) oldest where occurred_at <= ${nowAt(dialect, "$1")} - $2)
      returning pos`,
    [p.now, p.keep_ms, p.limit],
  );
  return gone.length;
}

/** Tokens end with their call; this is for what a death has left. A live call may outlast its token for a while. */
export function* sweepDelegations(p: SweepStep, dialect: Dialect): Op<number> {
  const gone = yield sql(
    `delete from delegations where token_hash in (
      select token_hash from delegations where expires_at <= ${nowAt(dialect, "$1")} - $2 limit $3)
      returning token_hash`,
    [p.now, p.keep_ms, p.limit],
  );
  return gone.length;
}

const CALLS = 20;

/**
 * Progress events of calls that ended by `ended_before`. Goes through the calls by id, that is by age, from `after`
 * on and up to `id_before`; answers where to go on, null when it has seen them all.
 */
export function* sweepProgress(
  p: { after: string; id_before: string; ended_before: string; limit: number },
  dialect: Dialect,
): Op<{ removed: number; after: string | null }> {
  const ended =
    dialect === "sqlite" ? "json_extract(i.outcome, '$.ended_at')" : "i.outcome::json->>'ended_at'";
  let after = p.after;
  let removed = 0;
  for (let seen = 0; seen < CALLS && removed < p.limit; seen++) {
    const [next] = yield sql(
      "select min(invocation_id) as id from invocation_events where invocation_id > $1 and invocation_id < $2",
      [after, p.id_before],
    );
    const id = (next?.id ?? null) as string | null;
    if (id === null) return { removed, after: null };
    const kept = yield sql(
      `select i.id from invocations i where i.id = $1 and (i.outcome is null or ${ended} > $2)`,
      [id, p.ended_before],
    );
    if (kept.length === 0) {
      const left = p.limit - removed;
      const gone = yield sql(
        `delete from invocation_events where invocation_id = $1 and seq in (
          select seq from invocation_events where invocation_id = $1 order by seq limit $2) returning seq`,
        [id, left],
      );
      removed += gone.length;
      // There may be more of this one.
      if (gone.length === left) break;
    }
    after = id;
  }
  return { removed, after };
}
