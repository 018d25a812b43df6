/**
 * The status of an invocation only moves forward: from waiting_approval to running, and from both to a terminal status.
 * Only the owner of the fence can change it.
 */

import { type ChangeRecordRows, writeRecords } from "./change-records.ts";
import { type AppendedRows, type TapeRows, writeTape } from "./entries.ts";
import { type ExecutionRows, endExecution, openExecution } from "./executions.ts";
import { requireHeldRun } from "./holds.ts";
import { type CompletedKey, completeKey, completeKeyWith } from "./idempotency.ts";
import { completeJob, type HeldJob, startJob } from "./jobs.ts";
import { expiredNodeCondition } from "./leases.ts";
import { jsonTexts, type Op, type Row, refuse, rowLock, type SqlDialect, type SqlValue, sql } from "./op.ts";
import { endHarnessRun, insertHarnessRun, type RunColumns, withEndpointTokens } from "./runs.ts";

export const INVOCATION_COLUMNS =
  "id, org_id, project_id, status, export_id, binding_id, session_id, node_id, fence, retry_count, started_at, body, outcome";

const ID = 0;
const NODE = 7;

export interface OpenInvocation {
  /** In the order of INVOCATION_COLUMNS. */
  row: SqlValue[];
  /** Null for a call that cannot share its trace with another call. */
  trace_id: string | null;
  /** id, org_id, project_id, invocation_id, status, body */
  approval: SqlValue[] | null;
  /** token_hash, invocation_id, org_id, project_id, scopes, expires_at */
  delegation: SqlValue[] | null;
  tape: TapeRows | null;
  once: CompletedKey | null;
  /** Set for a harness. */
  execution: ExecutionRows | null;
  /** The run of a harness; its message is in `tape`. */
  run: { columns: RunColumns; own_entries: number } | null;
  /** Set if the call is an attempt of a delivery. */
  job: (HeldJob & { leased_until: number | null }) | null;
  records: ChangeRecordRows;
}

const INSERT_INVOCATION = `insert into invocations (${INVOCATION_COLUMNS})
  values ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13)`;
const INSERT_TRACED = `insert into invocations (${INVOCATION_COLUMNS}, trace_id)
  values ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14)`;
const INSERT_APPROVAL =
  "insert into approvals (id, org_id, project_id, invocation_id, status, body) values ($1, $2, $3, $4, $5, $6)";
const INSERT_DELEGATION = `insert into delegations (token_hash, invocation_id, org_id, project_id, scopes, expires_at)
  values ($1, $2, $3, $4, $5, $6)`;

export function* openInvocation(p: OpenInvocation, dialect: SqlDialect): Op<AppendedRows | null> {
  // A call made by a turn is admitted only by the gateway that owns the turn.
  if (p.tape?.hold != null) yield* requireHeldRun(p.tape.hold, dialect);
  // Done before the row is inserted, so that a key in use leaves nothing to undo.
  if (p.once !== null && p.run === null) yield* completeKey(p.once, dialect);
  if (p.execution !== null) yield* openExecution(p.execution);
  if (p.job !== null && !(yield* startJob(p.job, p.row[ID] as string, p.row[NODE] as string, dialect))) {
    refuse("delivery.taken_over", "Another gateway has taken over the delivery.");
  }
  if (p.trace_id === null) yield sql(INSERT_INVOCATION, p.row);
  else yield sql(INSERT_TRACED, [...p.row, p.trace_id]);
  if (p.approval !== null) yield sql(INSERT_APPROVAL, p.approval);
  if (p.delegation !== null) yield sql(INSERT_DELEGATION, p.delegation);
  const written = yield* writeTape(p.tape, dialect);
  if (p.run !== null && p.tape !== null && written !== null) {
    const { columns, own_entries } = p.run;
    if (p.once !== null)
      yield* completeKeyWith(p.once, { id: columns.id, entry_id: written.last_id }, dialect);
    yield* insertHarnessRun(columns, p.tape.key, written, own_entries);
  }
  yield* writeRecords(p.records);
  return written;
}

export function* startInvocation(p: {
  id: string;
  fence: number;
  started_at: string;
  delegation: SqlValue[] | null;
}): Op<boolean> {
  const updated = yield sql(
    `update invocations set status = 'running', started_at = $3
      where id = $1 and fence = $2 and status = 'waiting_approval' returning id`,
    [p.id, p.fence, p.started_at],
  );
  if (updated.length === 0) return false;
  if (p.delegation !== null) yield sql(INSERT_DELEGATION, p.delegation);
  return true;
}

/** Requests a new approval. Nothing has run yet, so the row is updated to describe the call as it would run now. */
export function* replaceApproval(p: {
  id: string;
  fence: number;
  body: string;
  approval: SqlValue[];
  records: ChangeRecordRows;
}): Op<boolean> {
  const updated = yield sql(
    "update invocations set body = $3 where id = $1 and fence = $2 and status = 'waiting_approval' returning id",
    [p.id, p.fence, p.body],
  );
  if (updated.length === 0) return false;
  yield sql(INSERT_APPROVAL, p.approval);
  yield* writeRecords(p.records);
  return true;
}

export function* recordRetry(p: {
  id: string;
  fence: number;
  retry_count: number;
  body: string;
  /** Set after a crash: revokes the delegation from before the crash and, unless it is null, stores this one. */
  renewed: { delegation: SqlValue[] | null } | null;
}): Op<boolean> {
  const updated = yield sql(
    "update invocations set retry_count = $3, body = $4 where id = $1 and fence = $2 and status = 'running' returning id",
    [p.id, p.fence, p.retry_count, p.body],
  );
  if (updated.length === 0) return false;
  if (p.renewed === null) return true;
  yield sql("delete from delegations where invocation_id = $1", [p.id]);
  if (p.renewed.delegation !== null) yield sql(INSERT_DELEGATION, p.renewed.delegation);
  return true;
}

/** The call continues with another version, so the row is updated to describe it, and the delegation is replaced. */
export function* recordFallback(p: {
  id: string;
  fence: number;
  binding_id: string;
  retry_count: number;
  body: string;
  delegation: SqlValue[] | null;
}): Op<boolean> {
  const updated = yield sql(
    "update invocations set binding_id = $3, retry_count = $4, body = $5 where id = $1 and fence = $2 and status = 'running' returning id",
    [p.id, p.fence, p.binding_id, p.retry_count, p.body],
  );
  if (updated.length === 0) return false;
  yield sql("delete from delegations where invocation_id = $1", [p.id]);
  if (p.delegation !== null) yield sql(INSERT_DELEGATION, p.delegation);
  return true;
}

export interface SettleInvocation {
  id: string;
  fence: number;
  status: string;
  retry_count: number;
  started_at: string | null;
  outcome: string;
  records: ChangeRecordRows;
  /** The delivery that this outcome completes. */
  job: (HeldJob & { now: number | null; error: string | null }) | null;
}

const SETTLE = `update invocations set status = $3, retry_count = $4, started_at = coalesce($5, started_at), outcome = $6
  where id = $1 and fence = $2 and status in ('running', 'waiting_approval')`;
const SETTLE_RETURNING = `${SETTLE} returning id`;

/** The whole settlement in one statement, because round trips dominate the cost of a settlement on PostgreSQL. */
const SETTLE_IN_ONE_STATEMENT = `with settled as (${SETTLE_RETURNING}),
  revoked as (delete from delegations where invocation_id in (select id from settled)),
  published as (
    insert into outbox (id, type, org_id, project_id, occurred_at, subject_kind, subject_id, summary, from_hook, ids)
    select e->>0, e->>1, e->>2, e->>3, (e->>4)::bigint, e->>5, e->>6, e->>7, (e->>8)::bigint, e->>9
      from json_array_elements($7::json) e where exists (select 1 from settled))
  select id from settled`;

export function* settleInvocation(p: SettleInvocation, dialect: SqlDialect): Op<boolean> {
  const values = [p.id, p.fence, p.status, p.retry_count, p.started_at, p.outcome];
  if (dialect === "postgres" && p.records.audit === null) {
    const settled = yield sql(SETTLE_IN_ONE_STATEMENT, [...values, JSON.stringify(p.records.events)]);
    if (settled.length > 0 && p.job !== null) yield* completeJob(p.job, dialect);
    return settled.length > 0;
  }
  const updated = yield sql(dialect === "sqlite" ? SETTLE : SETTLE_RETURNING, values);
  if (updated.length === 0) return false;
  yield sql("delete from delegations where invocation_id = $1", [p.id]);
  yield* writeRecords(p.records);
  // If another node has taken over the delivery, this changes nothing.
  if (p.job !== null) yield* completeJob(p.job, dialect);
  return true;
}

const NO_RECORDS: ChangeRecordRows = { events: [], audit: null };

/** Returns null if the call was already settled; then nothing is appended to the tape. */
export function* settleWithTape(
  p: { settle: SettleInvocation; tape: TapeRows },
  dialect: SqlDialect,
): Op<AppendedRows | null> {
  const { records, ...settle } = p.settle;
  if (!(yield* settleInvocation({ ...settle, records: NO_RECORDS }, dialect))) return null;
  const written = yield* writeTape(p.tape, dialect);
  yield* writeRecords(records);
  return written;
}

export interface SettleHarness {
  settle: SettleInvocation;
  execution_id: string;
  checkpoint: string | null;
  run: { id: string; status: string; outcome: string; tape: TapeRows | null } | null;
}

/** Returns null if the call was already settled. */
export function* settleHarness(
  p: SettleHarness,
  dialect: SqlDialect,
): Op<{ entries: AppendedRows | null } | null> {
  const { records, ...settle } = p.settle;
  if (!(yield* settleInvocation({ ...settle, records: NO_RECORDS }, dialect))) return null;
  yield* endExecution({
    id: p.execution_id,
    invocation_id: settle.id,
    status: settle.status,
    checkpoint: p.checkpoint,
  });
  if (p.run === null) {
    yield* writeRecords(records);
    return { entries: null };
  }
  const { written, endpoint_use } = yield* endHarnessRun(p.run, dialect);
  yield* writeRecords(endpoint_use === null ? records : withEndpointTokens(records, p.run.id, endpoint_use));
  return { entries: written };
}

const INSERT_PROGRESS =
  "insert into invocation_events (invocation_id, seq, at, event) values ($1, $2, $3, $4) on conflict do nothing";

/** rows: invocation_id, seq, at, event */
export function* appendProgress(rows: SqlValue[][], dialect: SqlDialect): Op<void> {
  if (dialect === "sqlite") {
    for (const row of rows) yield sql(INSERT_PROGRESS, row);
    return;
  }
  yield sql(
    `insert into invocation_events (invocation_id, seq, at, event)
      select e->>0, (e->>1)::bigint, e->>2, e->>3 from json_array_elements($1::json) e on conflict do nothing`,
    [JSON.stringify(rows)],
  );
}

export interface OrphanQuery {
  status: "running" | "waiting_approval";
  node_id: string;
  now: number | null;
  limit: number;
  /** A JSON list of calls that are left to other nodes; null if there are none. */
  skipped: string | null;
}

/** Takes over the calls of nodes whose lease has expired. */
export function* claimInvocations(p: OrphanQuery, dialect: SqlDialect): Op<Row[]> {
  const { where, values } = orphanCondition(p, dialect);
  return yield sql(
    `update invocations set node_id = $1, fence = fence + 1 where id in (
      select i.id from invocations i where ${where}
      order by i.id limit $2 ${rowLock(dialect, "for update of i skip locked")})
      returning ${INVOCATION_COLUMNS}`,
    values,
  );
}

/** The calls that `claimInvocations` would take over. */
export function* listOrphans(p: OrphanQuery, dialect: SqlDialect): Op<Row[]> {
  const { where, values } = orphanCondition(p, dialect);
  return yield sql(
    `select ${INVOCATION_COLUMNS} from invocations i where ${where} order by i.id limit $2`,
    values,
  );
}

function orphanCondition(
  p: OrphanQuery,
  dialect: SqlDialect,
): { where: string; values: (string | number | null)[] } {
  const values = dialect === "sqlite" ? [p.node_id, p.limit] : [p.node_id, p.limit, p.now];
  const expired = expiredNodeCondition(dialect, "i.node_id", "$3");
  const skipped =
    p.skipped === null ? "" : `and i.id not in (${jsonTexts(dialect, `$${values.push(p.skipped)}`)})`;
  return { where: `i.status = '${p.status}' and i.node_id <> $1 ${expired} ${skipped}`, values };
}

export function* claimWaiting(
  p: Omit<OrphanQuery, "status">,
  dialect: SqlDialect,
): Op<{ row: Row; approval: Row }[]> {
  const claimed = yield* claimInvocations({ ...p, status: "waiting_approval" }, dialect);
  const pairs: { row: Row; approval: Row }[] = [];
  for (const row of claimed) {
    const [approval] = yield sql(
      "select id, body, status, resolution from approvals where invocation_id = $1 order by id desc limit 1",
      [row.id as string],
    );
    if (approval !== undefined) pairs.push({ row, approval });
  }
  return pairs;
}
