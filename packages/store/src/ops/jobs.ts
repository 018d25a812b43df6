/**
 * A job goes from ready to leased to done. A leased job that fails or is released becomes ready again. It is dead after
 * its last attempt or after a failure that is not retried, until it is replayed. An unfinished or dead job can be
 * discarded.
 *
 * On SQLite only one gateway uses the store, so it can reserve jobs in memory: a reserved job stays ready in the
 * database, its holder already has the fence that the start will write, and the write that opens its call leases it.
 *
 * Only the first unfinished job of a group has a due_at, so a claim is a plain index range however many jobs wait
 * behind others. Finishing a job of a group makes the next one due. On PostgreSQL a lock per group serializes enqueuing
 * and finishing, so that neither misses a job of the other. For the clock see nowSql.
 */
import { type ChangeRecordRows, writeRecords } from "./change-records.ts";
import { expiredNodeCondition } from "./leases.ts";
import {
  checkedCondition,
  jsonTexts,
  nowSql,
  type Op,
  type Row,
  rowLock,
  type SqlDialect,
  type SqlValue,
  selectForUpdate,
  sql,
} from "./op.ts";

export interface JobRow {
  id: string;
  queue: string;
  /** '' without a lane. */
  lane: string;
  group: string | null;
  payload: string;
  max_attempts: number;
  /** '' for a job that belongs to no tenant. */
  org_id: string;
  project_id: string;
}

const JOB_COLUMNS =
  "id, queue, lane, group_name, payload, run_at, max_attempts, attempt, fence, last_error, state, last_attempt, org_id, project_id, invocation_id, ended_at";

/** On SQLite, returns the indexes of the jobs that are due: those that were added and wait behind no other job. */
export function* enqueueJobs(
  { jobs, now }: { jobs: JobRow[]; now: number | null },
  dialect: SqlDialect,
): Op<number[]> {
  if (dialect === "postgres") {
    const groups = new Set<string>();
    for (const job of jobs) if (job.group !== null) groups.add(groupKey(job.queue, job.group));
    // Sorted, so that two enqueuers of the same groups take the locks in the same order.
    for (const key of [...groups].sort()) yield lockGroup(key);
  }
  if (dialect === "sqlite") return yield* insertJobs(jobs, now);
  const due_at = nowSql(dialect, "$4");
  for (const job of jobs) {
    yield sql(
      `insert into jobs (id, queue, group_name, open_group, state, run_at, due_at, max_attempts, last_attempt, attempt, fence, payload, lane, org_id, project_id, started)
        values ($1, $2, $3, $3, 'ready', ${due_at},
          case when exists (select 1 from jobs where queue = $2 and open_group = cast($8 as text)) then null else ${due_at} end,
          $5, $7, 0, 0, $6, $9, $10, $11, 0) on conflict (id) do nothing`,
      [
        job.id,
        job.queue,
        job.group,
        now,
        job.max_attempts,
        job.payload,
        job.max_attempts,
        job.group,
        job.lane,
        job.org_id,
        job.project_id,
      ],
    );
  }
  return [];
}

const HAS_OPEN_JOB = "select exists (select 1 from jobs where queue = $1 and open_group = $2) as waiting";
const INSERT_JOB = `insert into jobs (id, queue, group_name, open_group, state, run_at, due_at, max_attempts, last_attempt, attempt, fence, payload, lane, org_id, project_id, started)
  values ($1, $2, $3, $3, $4, $5, $6, $7, $7, 0, 0, $8, $9, $10, $11, 0) on conflict (id) do nothing`;

/** `enqueueJobs` for SQLite, with plain values: their checksum costs less than that of an expression. */
function* insertJobs(jobs: readonly JobRow[], now: number | null): Op<number[]> {
  const due: number[] = [];
  for (const [n, { id, queue, group, max_attempts, payload, lane, org_id, project_id }] of jobs.entries()) {
    const waiting = group !== null && (yield sql(HAS_OPEN_JOB, [queue, group]))[0]!.waiting === 1;
    const due_at = waiting ? null : now;
    const values = [id, queue, group, "ready", now, due_at, max_attempts, payload, lane, org_id, project_id];
    const added = (yield sql(INSERT_JOB, values)).length > 0;
    if (added && !waiting) due.push(n);
  }
  return due;
}

export function* claimJobs(
  p: {
    queue: string;
    /** Null for any lane. */
    lane: string | null;
    node_id: string;
    now: number | null;
    lease_ms: number;
    limit: number;
    /** Excludes jobs whose lease has expired. */
    ready_only: boolean;
    /** SQLite only, with a lane: a JSON list of reserved jobs, which are not claimed. */
    held: string | null;
  },
  dialect: SqlDialect,
): Op<Row[]> {
  const ready = p.ready_only ? "and state = 'ready'" : "";
  const values: SqlValue[] = [p.queue, p.now, p.limit];
  const lane = p.lane === null ? "" : `and lane = $${values.push(p.lane)}`;
  const held = p.held === null ? "" : `and id not in (${jsonTexts(dialect, `$${values.push(p.held)}`)})`;
  const due = yield selectForUpdate(
    `select id, queue, group_name, state, attempt, last_attempt from jobs
      where queue = $1 and due_at <= ${nowSql(dialect, "$2")} ${lane} ${held} ${ready}
      order by due_at, pos limit $3 ${rowLock(dialect, "for update skip locked")}`,
    values,
  );
  const claimed: Row[] = [];
  for (const job of due) {
    if ((job.attempt as number) >= (job.last_attempt as number)) {
      // The lease of its last attempt expired, so no worker will report its outcome.
      yield* markDead(
        job,
        "The lease of the last attempt expired before it reported an outcome.",
        p.now,
        dialect,
      );
      continue;
    }
    const [row] = yield sql(
      `update jobs set state = 'leased', node_id = $2, due_at = ${nowSql(dialect, "$3")} + $4,
        attempt = attempt + 1, fence = fence + 1 where id = $1 returning ${JOB_COLUMNS}`,
      [job.id as string, p.node_id, p.now, p.lease_ms],
    );
    claimed.push(row!);
  }
  return claimed;
}

export function* extendJob(
  p: { id: string; fence: number; now: number | null; lease_ms: number },
  dialect: SqlDialect,
): Op<boolean> {
  const updated = yield sql(
    `update jobs set due_at = ${nowSql(dialect, "$3")} + $4
      where id = $1 and fence = $2 and state = 'leased' returning id`,
    [p.id, p.fence, p.now, p.lease_ms],
  );
  return updated.length > 0;
}

/** SQLite only: due jobs to reserve, without those in the JSON list `held`. */
export function* listDueJobs(p: {
  queue: string;
  lane: string;
  now: number | null;
  limit: number;
  ready_only: boolean;
  held: string;
}): Op<Row[]> {
  return yield sql(
    `select ${JOB_COLUMNS} from jobs where queue = $1 and due_at <= ${nowSql("sqlite", "$2")} and lane = $4
      and id not in (${jsonTexts("sqlite", "$5")}) ${p.ready_only ? "and state = 'ready'" : ""} order by due_at, pos limit $3`,
    [p.queue, p.now, p.limit, p.lane, p.held],
  );
}

/** The condition for a reserved job. Its start raises the fence by one, to $2. */
const IS_RESERVED = "state = 'ready' and fence = $2 - 1 and due_at is not null";

/** Leases a job that was reserved and not started, so that it can be finished like a leased one. */
function* leaseReserved({ id, fence }: HeldJob, dialect: SqlDialect): Op<void> {
  if (dialect === "postgres") return;
  yield sql(
    `update jobs set state = 'leased', attempt = attempt + 1, fence = $2 where id = $1 and ${IS_RESERVED}`,
    [id, fence],
  );
}

const START_LEASED = `update jobs set started = attempt, invocation_id = $3
  where id = $1 and fence = $2 and state = 'leased'`;
const LEASE_AND_START = `update jobs set state = 'leased', node_id = $4, due_at = cast($5 as integer), attempt = attempt + 1,
    fence = $2, started = attempt + 1, invocation_id = $3 where id = $1 and ${IS_RESERVED}`;

/** Starts the job as a call; from here on the attempt counts. Returns false if another node has taken over the job. */
export function* startJob(
  { id, fence, leased_until }: HeldJob & { leased_until: number | null },
  invocation_id: string,
  node_id: string,
  dialect: SqlDialect,
): Op<boolean> {
  if (dialect === "postgres") {
    return (yield sql(`${START_LEASED} returning id`, [id, fence, invocation_id])).length > 0;
  }
  if (leased_until !== null) {
    const started = yield sql(LEASE_AND_START, [id, fence, invocation_id, node_id, leased_until]);
    if (started.length > 0) return true;
  }
  return (yield sql(START_LEASED, [id, fence, invocation_id])).length > 0;
}

/**
 * Releases a leased or reserved job. An attempt that was not started does not count. An attempt that was started and
 * `refused` keeps its number, but the job gets one attempt more; the number of an attempt that `never_ran` is used again.
 */
export function* releaseJob(
  p: HeldJob & { now: number | null; delay_ms: number; uncounted: "never_ran" | "refused" | null },
  dialect: SqlDialect,
): Op<boolean> {
  const attempt = RELEASED_ATTEMPT[p.uncounted ?? "unstarted"];
  const due_at = `${nowSql(dialect, "$3")} + $4`;
  const reserved = dialect === "sqlite" && p.uncounted !== "never_ran" ? `or (${IS_RESERVED})` : "";
  const released = yield sql(
    `update jobs set state = 'ready', run_at = ${due_at}, due_at = ${due_at}, ${attempt}
      where id = $1 and ((fence = $2 and state = 'leased') ${reserved}) returning id`,
    [p.id, p.fence, p.now, p.delay_ms],
  );
  return released.length > 0;
}

/**
 * Makes the jobs that dead nodes have leased due now. The next claim raises their fences, so that a frozen node cannot
 * report their outcome.
 */
export function* releaseOrphanJobs(
  p: { queue: string; node_id: string; now: number | null },
  dialect: SqlDialect,
): Op<number> {
  const now = nowSql(dialect, "$3");
  const released = yield sql(
    `update jobs set state = 'ready', run_at = ${now}, due_at = ${now}, ${UNCOUNT_UNSTARTED}
      where queue = $1 and due_at is not null and state = 'leased' and node_id <> $2
        ${expiredNodeCondition(dialect, "jobs.node_id", "$3")} returning id`,
    [p.queue, p.node_id, p.now],
  );
  return released.length;
}

const UNCOUNT_UNSTARTED =
  "attempt = case when started < attempt and state = 'leased' then attempt - 1 else attempt end";

const ADD_ATTEMPT =
  "last_attempt = case when started = attempt and state = 'leased' then last_attempt + 1 else last_attempt end";

/** How a release changes the attempt count, by the reason of the release. */
const RELEASED_ATTEMPT = {
  unstarted: UNCOUNT_UNSTARTED,
  refused: `${UNCOUNT_UNSTARTED}, ${ADD_ATTEMPT}`,
  never_ran: "attempt = attempt - 1, started = attempt - 1",
};

/** A leased or reserved job, as its holder identifies it. */
export interface HeldJob {
  id: string;
  fence: number;
}

/** Completes a job, whether or not it has been started. */
export function* completeHeldJob(p: HeldJob & { now: number | null }, dialect: SqlDialect): Op<boolean> {
  yield* leaseReserved(p, dialect);
  return yield* completeJob(p, dialect);
}

const COMPLETE = `update jobs set state = 'done', due_at = null, open_group = null, ended_at = cast($3 as integer), last_error = $4
  where id = $1 and fence = $2 and state = 'leased'`;
const RELEASE_NEXT = `update jobs set due_at = run_at where due_at is null and pos = (
  select min(next.pos) from jobs ended join jobs next on next.queue = ended.queue and next.open_group = ended.group_name
    where ended.id = $1)`;

/** `error` is that of a hook that failed and is not retried; null clears the error of an earlier attempt. */
export function* completeJob(
  p: HeldJob & { now: number | null; error?: string | null },
  dialect: SqlDialect,
): Op<boolean> {
  const values = [p.id, p.fence, p.now, p.error ?? null];
  if (dialect === "sqlite") {
    // Without `returning`, which would make this update take 1.5 times as long (benchmark hooks.delivery).
    if ((yield sql(COMPLETE, values)).length === 0) return false;
    yield sql(RELEASE_NEXT, [p.id]);
    return true;
  }
  const [job] = yield sql(
    `update jobs set state = 'done', due_at = null, open_group = null, ended_at = ${nowSql(dialect, "$3")}, last_error = $4
      where id = $1 and fence = $2 and state = 'leased' returning queue, group_name`,
    values,
  );
  if (job === undefined) return false;
  yield* releaseNextInGroup(job, dialect);
  return true;
}

export function* failJob(
  p: { id: string; fence: number; error: string; now: number | null; retry_ms: number | null },
  dialect: SqlDialect,
): Op<boolean> {
  yield* leaseReserved(p, dialect);
  const [job] = yield sql(
    `select id, queue, group_name, attempt, last_attempt from jobs
      where id = $1 and fence = $2 and state = 'leased' ${rowLock(dialect, "for update")}`,
    [p.id, p.fence],
  );
  if (job === undefined) return false;
  if (p.retry_ms === null || (job.attempt as number) >= (job.last_attempt as number)) {
    yield* markDead(job, p.error, p.now, dialect);
  } else {
    const due_at = `${nowSql(dialect, "$2")} + $4`;
    yield sql(
      `update jobs set state = 'ready', run_at = ${due_at}, due_at = ${due_at}, last_error = $3 where id = $1`,
      [p.id, p.now, p.error, p.retry_ms],
    );
  }
  return true;
}

/**
 * Makes a dead job ready again, behind the other jobs of its group, with as many new attempts as it had at first. The
 * count of attempts continues.
 */
export function* replayJob(
  p: { id: string; now: number | null; records: ChangeRecordRows },
  dialect: SqlDialect,
): Op<boolean> {
  const [job] = yield sql(
    `select queue, group_name from jobs where id = $1 and state = 'dead' ${rowLock(dialect, "for update")}`,
    [p.id],
  );
  if (job === undefined) return false;
  const group = job.group_name as string | null;
  let waiting = false;
  if (group !== null) {
    if (dialect === "postgres") yield lockGroup(groupKey(job.queue as string, group));
    const open = yield sql("select id from jobs where queue = $1 and open_group = $2 limit 1", [
      job.queue as string,
      group,
    ]);
    waiting = open.length > 0;
  }
  const due_at = nowSql(dialect, "$2");
  yield sql(
    `update jobs set state = 'ready', open_group = group_name, run_at = ${due_at}, due_at = ${waiting ? "null" : due_at},
      ended_at = null, last_attempt = attempt + max_attempts where id = $1`,
    [p.id, p.now],
  );
  yield* writeRecords(p.records);
  return true;
}

/** Discards a ready or dead job without running it. */
export function* discardJob(
  p: { id: string; now: number | null; records: ChangeRecordRows },
  dialect: SqlDialect,
): Op<boolean> {
  const [job] = yield sql(
    `update jobs set state = 'discarded', due_at = null, open_group = null, ended_at = ${nowSql(dialect, "$2")}
      where id = $1 and state in ('ready', 'dead') returning queue, group_name`,
    [p.id, p.now],
  );
  if (job === undefined) return false;
  yield* releaseNextInGroup(job, dialect);
  yield* writeRecords(p.records);
  return true;
}

/** Discards a leased or reserved job, which will not be run. */
export function* discardHeldJob(
  p: HeldJob & { now: number | null; error: string },
  dialect: SqlDialect,
): Op<boolean> {
  yield* leaseReserved(p, dialect);
  const [job] = yield sql(
    `update jobs set state = 'discarded', due_at = null, open_group = null, last_error = $4,
      ended_at = ${nowSql(dialect, "$3")} where id = $1 and fence = $2 and state = 'leased' returning queue, group_name`,
    [p.id, p.fence, p.now, p.error],
  );
  if (job === undefined) return false;
  yield* releaseNextInGroup(job, dialect);
  return true;
}

/**
 * Discards jobs of a lane that have been due for longer than `keep_ms`. Only the first of each group is due, so a
 * caller repeats this until it returns 0.
 */
export function* discardOverdueJobs(
  p: { queue: string; lane: string; error: string; now: number | null; keep_ms: number; limit: number },
  dialect: SqlDialect,
): Op<number> {
  const overdue = yield selectForUpdate(
    `select id, queue, group_name from jobs where queue = $1 and lane = $2
      and due_at <= ${nowSql(dialect, "$3")} - $4 and state = 'ready'
      order by due_at limit $5 ${rowLock(dialect, "for update skip locked")}`,
    [p.queue, p.lane, p.now, p.keep_ms, p.limit],
  );
  for (const job of overdue) {
    yield sql(
      `update jobs set state = 'discarded', due_at = null, open_group = null, last_error = $2,
        ended_at = ${nowSql(dialect, "$3")} where id = $1`,
      [job.id as string, p.error, p.now],
    );
    yield* releaseNextInGroup(job, dialect);
  }
  return overdue.length;
}

export function* readJob(id: string): Op<Row | undefined> {
  return (yield sql(`select ${JOB_COLUMNS} from jobs where id = $1`, [id]))[0];
}

/** Newest first. `project_id` '' lists the whole org, and '' in the other filters means any. */
export function* listJobs(p: {
  org_id: string;
  project_id: string;
  state: string;
  lane: string;
  before: string;
  limit: number;
}): Op<Row[]> {
  const conditions = ["org_id = $1", "id < $2"];
  const values: SqlValue[] = [p.org_id, p.before, p.limit];
  // A literal, so that the partial index of dead jobs is used.
  if (p.state === "dead") conditions.push("state = 'dead'");
  else if (p.state !== "") {
    conditions.push("org_id <> ''", checkedCondition("jobs", `state = $${values.push(p.state)}`));
  } else conditions.push("org_id <> ''");
  if (p.project_id !== "") {
    const in_project = `project_id = $${values.push(p.project_id)}`;
    // The index of dead jobs does not contain the project.
    conditions.push(p.state === "dead" ? checkedCondition("jobs", in_project) : in_project);
  }
  if (p.lane !== "") conditions.push(checkedCondition("jobs", `lane = $${values.push(p.lane)}`));
  return yield sql(
    `select ${JOB_COLUMNS} from jobs where ${conditions.join(" and ")} order by id desc limit $3`,
    values,
  );
}

export function* listDeadJobs(queue: string, limit: number): Op<Row[]> {
  return yield sql(
    `select ${JOB_COLUMNS} from jobs where queue = $1 and state = 'dead' order by pos desc limit $2`,
    [queue, limit],
  );
}

/**
 * Each lane with open jobs, with the time in milliseconds until its first job is due. A leased job is due when its lease
 * expires. The query skips from lane to lane, so its cost does not depend on the length of a lane.
 */
export function* listDueLanes(queue: string, now: number | null, dialect: SqlDialect): Op<Row[]> {
  return yield sql(
    `with recursive lanes(lane) as (
      select min(lane) from jobs where queue = $1 and due_at is not null
      union all
      select (select min(j.lane) from jobs j where j.queue = $1 and j.due_at is not null and j.lane > lanes.lane)
        from lanes where lanes.lane is not null)
      select lane, (select min(j.due_at) from jobs j
          where j.queue = $1 and j.lane = lanes.lane and j.due_at is not null) - ${nowSql(dialect, "$2")} as due_in,
        (select j.org_id from jobs j
          where j.queue = $1 and j.lane = lanes.lane and j.due_at is not null order by j.due_at limit 1) as org_id
        from lanes where lane is not null order by 2, 1`,
    [queue, now],
  );
}

function* markDead(job: Row, error: string, now: number | null, dialect: SqlDialect): Op<void> {
  yield sql(
    `update jobs set state = 'dead', due_at = null, open_group = null, last_error = $2,
      ended_at = ${nowSql(dialect, "$3")} where id = $1`,
    [job.id as string, error, now],
  );
  yield* releaseNextInGroup(job, dialect);
}

function* releaseNextInGroup(job: Row, dialect: SqlDialect): Op<void> {
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
