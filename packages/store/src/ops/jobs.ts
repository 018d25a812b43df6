/**
 * ready → leased → done, or → ready again (failed, lease expired) → dead.
 *
 * Only the first unfinished job of a group has a due_at, so a claim is a plain index range however many jobs
 * wait behind others. Whoever finishes a job of a group lets the next one out. On PostgreSQL a lock per group
 * keeps "is someone before me?" and "who is next?" from missing each other.
 */
import { type Dialect, locked, type Op, type Row, sql } from "../op.ts";

export interface JobRow {
  id: string;
  queue: string;
  group: string | null;
  payload: string;
  run_at: number;
  max_attempts: number;
}

const JOB =
  "id, queue, group_name, payload, run_at, max_attempts, attempt, fence, last_error, state, last_attempt";

export function* enqueueJobs(jobs: JobRow[], dialect: Dialect): Op<void> {
  if (dialect === "postgres") {
    const groups = new Set<string>();
    for (const job of jobs) if (job.group !== null) groups.add(groupKey(job.queue, job.group));
    // Sorted: two enqueuers of the same groups take the locks in the same order.
    for (const key of [...groups].sort()) yield lockGroup(key);
  }
  for (const job of jobs) {
    yield sql(
      `insert into jobs (id, queue, group_name, open_group, state, run_at, due_at, max_attempts, last_attempt, attempt, fence, payload)
        values ($1, $2, $3, $3, 'ready', $4,
          case when exists (select 1 from jobs where queue = $2 and open_group = cast($9 as text)) then null else cast($7 as bigint) end,
          $5, $8, 0, 0, $6) on conflict (id) do nothing`,
      [
        job.id,
        job.queue,
        job.group,
        job.run_at,
        job.max_attempts,
        job.payload,
        job.run_at,
        job.max_attempts,
        job.group,
      ],
    );
  }
}

export function* claimJobs(
  p: { queue: string; node_id: string; now: number; lease_ms: number; limit: number },
  dialect: Dialect,
): Op<Row[]> {
  const due = yield sql(
    `select id, queue, group_name, state, attempt, last_attempt from jobs where queue = $1 and due_at <= $2
      order by due_at limit $3 ${locked(dialect, "for update skip locked")}`,
    [p.queue, p.now, p.limit],
  );
  const claimed: Row[] = [];
  for (const job of due) {
    if ((job.attempt as number) >= (job.last_attempt as number)) {
      // Its last attempt's lease ran out: nobody will ever report.
      yield* bury(job, "the last attempt never reported back", dialect);
      continue;
    }
    const [row] = yield sql(
      `update jobs set state = 'leased', node_id = $2, due_at = $3, attempt = attempt + 1, fence = fence + 1
        where id = $1 returning ${JOB}`,
      [job.id as string, p.node_id, p.now + p.lease_ms],
    );
    claimed.push(row!);
  }
  return claimed;
}

export function* extendJob(id: string, fence: number, until: number): Op<boolean> {
  const hit = yield sql(
    "update jobs set due_at = $3 where id = $1 and fence = $2 and state = 'leased' returning id",
    [id, fence, until],
  );
  return hit.length > 0;
}

export function* completeJob(p: { id: string; fence: number }, dialect: Dialect): Op<boolean> {
  const [job] = yield sql(
    `update jobs set state = 'done', due_at = null, open_group = null
      where id = $1 and fence = $2 and state = 'leased' returning queue, group_name`,
    [p.id, p.fence],
  );
  if (job === undefined) return false;
  yield* letNextOut(job, dialect);
  return true;
}

export function* failJob(
  p: { id: string; fence: number; error: string; retry_at: number | null },
  dialect: Dialect,
): Op<boolean> {
  const [job] = yield sql(
    `select id, queue, group_name, attempt, last_attempt from jobs
      where id = $1 and fence = $2 and state = 'leased' ${locked(dialect, "for update")}`,
    [p.id, p.fence],
  );
  if (job === undefined) return false;
  if (p.retry_at === null || (job.attempt as number) >= (job.last_attempt as number)) {
    yield* bury(job, p.error, dialect);
  } else {
    yield sql("update jobs set state = 'ready', run_at = $2, due_at = $2, last_error = $3 where id = $1", [
      p.id,
      p.retry_at,
      p.error,
    ]);
  }
  return true;
}

/** Attempts count on; it gets as many new ones as it had at first. Behind its group, as if enqueued now. */
export function* replayJob(p: { id: string; run_at: number }, dialect: Dialect): Op<boolean> {
  const [job] = yield sql(
    `select queue, group_name from jobs where id = $1 and state = 'dead' ${locked(dialect, "for update")}`,
    [p.id],
  );
  if (job === undefined) return false;
  const group = job.group_name as string | null;
  let waits = false;
  if (group !== null) {
    if (dialect === "postgres") yield lockGroup(groupKey(job.queue as string, group));
    const open = yield sql("select id from jobs where queue = $1 and open_group = $2 limit 1", [
      job.queue as string,
      group,
    ]);
    waits = open.length > 0;
  }
  yield sql(
    `update jobs set state = 'ready', open_group = group_name, run_at = $2, due_at = $3,
      last_attempt = attempt + max_attempts where id = $1`,
    [p.id, p.run_at, waits ? null : p.run_at],
  );
  return true;
}

export function* readJob(id: string): Op<Row | undefined> {
  return (yield sql(`select ${JOB} from jobs where id = $1`, [id]))[0];
}

export function* deadJobs(queue: string, limit: number): Op<Row[]> {
  return yield sql(`select ${JOB} from jobs where queue = $1 and state = 'dead' order by pos desc limit $2`, [
    queue,
    limit,
  ]);
}

/** A lease counts: when it runs out, its job is due again. */
export function* nextDue(queue: string): Op<number | null> {
  const rows = yield sql(
    "select due_at from jobs where queue = $1 and due_at is not null order by due_at limit 1",
    [queue],
  );
  return (rows[0]?.due_at as number | undefined) ?? null;
}

function* bury(job: Row, error: string, dialect: Dialect): Op<void> {
  yield sql(
    "update jobs set state = 'dead', due_at = null, open_group = null, last_error = $2 where id = $1",
    [job.id as string, error],
  );
  yield* letNextOut(job, dialect);
}

function* letNextOut(job: Row, dialect: Dialect): Op<void> {
  const group = job.group_name as string | null;
  if (group === null) return;
  const queue = job.queue as string;
  if (dialect === "postgres") yield lockGroup(groupKey(queue, group));
  yield sql(
    `update jobs set due_at = run_at where due_at is null and pos = (
      select min(pos) from jobs where queue = $1 and open_group = $2)`,
    [queue, group],
  );
}

function groupKey(queue: string, group: string): string {
  return `${queue}\n${group}`;
}

function lockGroup(key: string) {
  return sql("select pg_advisory_xact_lock(hashtextextended($1, 7)) is null as locked", [key]);
}
