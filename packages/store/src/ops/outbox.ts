import { enqueueJobs, type JobRow } from "./jobs.ts";
import { checkedCondition, type Op, type Row, type SqlDialect, type SqlValue, sql } from "./op.ts";

/**
 * PostgreSQL only: numbers the events that have no number yet. Transactions commit in a different order than they
 * insert, so with numbers given at insert a late commit would appear behind a cursor that has already passed it. Only
 * committed rows are numbered, and the lock on the head row makes the numbers appear in order.
 */
export function* numberEvents(limit: number): Op<number> {
  const waiting = yield sql("select pos from outbox where seq is null limit 1");
  if (waiting.length === 0) return 0;
  yield sql("select seq from outbox_head where one = 1 for update");
  const numbered = yield sql(
    `with head as (select seq from outbox_head where one = 1),
      fresh as (select pos, row_number() over (order by pos) as n
        from (select pos from outbox where seq is null order by pos limit $1) batch)
      update outbox o set seq = head.seq + fresh.n from fresh, head where o.pos = fresh.pos returning o.seq`,
    [limit],
  );
  yield sql("update outbox_head set seq = seq + $1 where one = 1", [numbered.length]);
  return numbered.length;
}

/** `project_id` '' reads the whole org. `org_id` null reads every org, for the dispatcher. */
export function* readOutbox(
  p: { after: number; limit: number; org_id: string | null; project_id: string },
  dialect: SqlDialect,
): Op<Row[]> {
  const seq = dialect === "sqlite" ? "pos" : "seq";
  const conditions = [`${seq} > $1`];
  const values: SqlValue[] = [p.after, p.limit];
  if (p.org_id !== null) conditions.push(`org_id = $${values.push(p.org_id)}`);
  if (p.project_id !== "") {
    conditions.push(checkedCondition("outbox", `project_id = $${values.push(p.project_id)}`));
  }
  return yield sql(
    `select ${seq} as seq, id, type, org_id, project_id, occurred_at, subject_kind, subject_id, summary, from_hook, ids
      from outbox where ${conditions.join(" and ")} order by ${seq} limit $2`,
    values,
  );
}

export function* summarizeOutbox(after: number, limit: number, dialect: SqlDialect): Op<Row[]> {
  const seq = dialect === "sqlite" ? "pos" : "seq";
  return yield sql(
    `select org_id, project_id, type, from_hook, max(seq) as last_seq, count(*) as event_count from (
      select ${seq} as seq, org_id, project_id, type, from_hook from outbox where ${seq} > $1 order by ${seq} limit $2
    ) ahead group by org_id, project_id, type, from_hook`,
    [after, limit],
  );
}

/** The highest position, numbered or not: a cheap way to detect new events. */
export function* readLastPosition(): Op<number> {
  return ((yield sql("select max(pos) as pos from outbox"))[0]?.pos as number | null) ?? 0;
}

export function* readCursor(consumer: string): Op<number> {
  return ((yield sql("select seq from cursors where consumer = $1", [consumer]))[0]?.seq as number) ?? 0;
}

/** Returns the result of `enqueueJobs`, or null if another node has advanced the cursor. */
export function* advanceCursor(
  p: { consumer: string; from: number; to: number; jobs: JobRow[]; now: number | null },
  dialect: SqlDialect,
): Op<number[] | null> {
  // The first advance creates the row; of two nodes, only one succeeds.
  const advanced =
    p.from === 0
      ? yield sql(
          `insert into cursors (consumer, seq) values ($1, $3)
            on conflict (consumer) do update set seq = excluded.seq where cursors.seq = $2 returning seq`,
          [p.consumer, p.from, p.to],
        )
      : yield sql("update cursors set seq = $3 where consumer = $1 and seq = $2 returning seq", [
          p.consumer,
          p.from,
          p.to,
        ]);
  if (advanced.length === 0) return null;
  return yield* enqueueJobs(p, dialect);
}
