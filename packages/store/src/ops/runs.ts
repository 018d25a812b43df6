/**
 * A run goes from `running` (or `executing`, for the run of a harness) to a terminal status once. Lock order: the run,
 * its session, the records.
 */

import { addTokens, type ChangeRecordRows, EVENT_IDS, writeRecords } from "./change-records.ts";
import { type AppendedRows, appendEntries, type TapeRows, writeTape } from "./entries.ts";
import { countChildRun } from "./executions.ts";
import {
  ENDPOINT_COLUMNS,
  findRunningRun,
  type HoldColumns,
  lockHeldRun,
  refuseBusy,
  requireHeldRun,
  requireIdle,
} from "./holds.ts";
import { type CompletedKey, completeKeyWith } from "./idempotency.ts";
import { expiredNodeCondition } from "./leases.ts";
import { checkedCondition, type Op, type Row, rowLock, type SqlDialect, type SqlValue, sql } from "./op.ts";
import { keyValues, SESSION_KEY, type SessionKeyColumns } from "./session-key.ts";

const RUN_COLUMNS = `id, org_id, project_id, workspace, session_id, chain_id, status, node_id, body, outcome,
  output_entry, fence, joins, first_entry, ${ENDPOINT_COLUMNS}`;

export interface RunColumns {
  id: string;
  org_id: string;
  project_id: string;
  workspace: string;
  session_id: string;
  status: string;
  node_id: string;
  body: string;
}

const INSERT_RUN = `insert into runs (${RUN_COLUMNS})
  values ($1, $2, $3, $4, $5, $6, $7, $8, $9, null, null, 0, 0, $10, 0, 0, 0, 0, 0) on conflict do nothing`;
const INSERT_RUN_RETURNING = `${INSERT_RUN} returning id`;

/**
 * The row records the chain of its message. Appending locks the session's row, so of two gateways that start a turn the
 * second one finds the other's row and is refused with `session.busy`. `parent` is the turn that started the run of a
 * sub-agent.
 */
export function* startRun(
  p: {
    run: RunColumns;
    parent: HoldColumns | null;
    tape: TapeRows;
    /** How many entries at the end of `tape` belong to the run. */
    own_entries: number;
    records: ChangeRecordRows;
    once: CompletedKey | null;
    /** The harness execution that the run counts against. */
    execution: { id: string; depth: number } | null;
  },
  dialect: SqlDialect,
): Op<AppendedRows> {
  const { run } = p;
  if (p.parent !== null) yield* requireHeldRun(p.parent, dialect);
  if (p.execution !== null) yield* countChildRun(p.execution);
  const written = yield* appendEntries({ ...p.tape, chain_id: null }, dialect);
  if (p.once !== null) {
    yield* completeKeyWith(p.once, { id: run.id, entry_id: written.last_id }, dialect);
  }
  const inserted = yield sql(dialect === "sqlite" ? INSERT_RUN : INSERT_RUN_RETURNING, [
    run.id,
    run.org_id,
    run.project_id,
    run.workspace,
    run.session_id,
    written.chain_id,
    run.status,
    run.node_id,
    run.body,
    written.last_id - p.own_entries + 1,
  ]);
  if (inserted.length === 0) refuseBusy((yield* findRunningRun(p.tape.key)) ?? run.id);
  const events = p.records.events.map((event) => withChain(event, written.chain_id));
  yield* writeRecords({ ...p.records, events });
  return written;
}

/** The chain of a run is known only once its message is written. */
function withChain(event: SqlValue[], chain_id: string): SqlValue[] {
  const ids = event[EVENT_IDS];
  if (typeof ids !== "string") return event;
  return event.with(EVENT_IDS, JSON.stringify({ ...(JSON.parse(ids) as object), chain_id }));
}

/**
 * The stored status of a harness's run. Readers see `running`, but the run does not occupy its session, so that the
 * harness can start turns there. No gateway recovers it as a turn: it ends with the call to its harness.
 */
export const EXECUTING = "executing";

/** Call this after the message has been appended, which locks the session's row. */
export function* insertHarnessRun(
  run: RunColumns,
  key: TapeRows["key"],
  { chain_id, last_id }: AppendedRows,
  own_entries: number,
): Op<void> {
  yield* requireIdle(key);
  yield sql(INSERT_RUN, [
    run.id,
    run.org_id,
    run.project_id,
    run.workspace,
    run.session_id,
    chain_id,
    EXECUTING,
    run.node_id,
    run.body,
    last_id - own_entries + 1,
  ]);
}

/**
 * If no entry is appended, the message that began the run is recorded as its output entry. `endpoint_use` is null if
 * the run had ended before.
 */
export function* endHarnessRun(
  p: { id: string; status: string; outcome: string; tape: TapeRows | null },
  dialect: SqlDialect,
): Op<{ written: AppendedRows | null; endpoint_use: Row | null }> {
  const written = p.tape === null ? null : yield* writeIfIdle(p.tape, dialect);
  const [ended] = yield sql(
    `update runs set status = $2, outcome = $3, output_entry = coalesce($4, first_entry)
      where id = $1 and status = '${EXECUTING}' returning ${ENDPOINT_COLUMNS}`,
    [p.id, p.status, p.outcome, written?.last_id ?? null],
  );
  return { written, endpoint_use: ended ?? null };
}

/** One ended call to a model endpoint, as its run counts it. */
export interface EndpointUse {
  run_id: string;
  calls: number;
  input_other: number;
  input_cache_read: number;
  input_cache_creation: number;
  output: number;
}

/** Adds to a run that is running or has ended: the gateway cancels the calls of a harness only after its end. */
export function* countEndpointUse(use: EndpointUse): Op<void> {
  yield sql(
    `update runs set endpoint_calls = endpoint_calls + $2, endpoint_input_other = endpoint_input_other + $3,
      endpoint_cache_read = endpoint_cache_read + $4, endpoint_cache_creation = endpoint_cache_creation + $5,
      endpoint_output = endpoint_output + $6 where id = $1`,
    [use.run_id, use.calls, use.input_other, use.input_cache_read, use.input_cache_creation, use.output],
  );
}

/** The event that reports the end of a run contains the tokens of the calls that have ended by then. */
export function withEndpointTokens(records: ChangeRecordRows, run_id: string, use: Row): ChangeRecordRows {
  const input =
    (use.endpoint_input_other as number) +
    (use.endpoint_cache_read as number) +
    (use.endpoint_cache_creation as number);
  return addTokens(records, run_id, input + (use.endpoint_output as number));
}

function* writeIfIdle(tape: TapeRows, dialect: SqlDialect): Op<AppendedRows | null> {
  // Locks the session's row, so that no turn begins between the check and the write.
  yield* writeTape({ ...tape, entries: [] }, dialect);
  return (yield* findRunningRun(tape.key)) === null ? yield* writeTape(tape, dialect) : null;
}

export interface EndRun {
  hold: HoldColumns;
  /** How many messages of other gateways the turn has read. The turn does not end while there are more. */
  joins: number;
  org_id: string;
  project_id: string;
  status: string;
  outcome: string;
  /** Null if the run has no output. Otherwise the entry of the output, used when no entry is appended. */
  output_entry: number | null;
  tape: TapeRows | null;
  records: ChangeRecordRows;
}

/**
 * Returns only `joins` if other gateways have added more messages than the turn has read. Returns null if another
 * gateway owns the run, or it has ended.
 */
export function* endRun(
  p: EndRun,
  dialect: SqlDialect,
): Op<(AppendedRows & { endpoint_use: Row }) | { joins: number } | null> {
  const { run_id } = p.hold;
  const held = yield* lockHeldRun(p.hold, dialect);
  if (held === undefined || held.org_id !== p.org_id) return null;
  if (p.project_id !== "" && held.project_id !== p.project_id) return null;
  if ((held.joins as number) > p.joins) return { joins: held.joins as number };
  const written = yield* writeTape(p.tape, dialect);
  const output_entry = p.output_entry === null ? null : (written?.last_id ?? p.output_entry);
  yield sql("update runs set status = $2, outcome = $3, output_entry = $4 where id = $1", [
    run_id,
    p.status,
    p.outcome,
    output_entry,
  ]);
  yield* writeRecords(withEndpointTokens(p.records, run_id, held));
  const entries = written ?? { chain_id: held.chain_id as string, first_id: 1, last_id: 0 };
  return { ...entries, endpoint_use: held };
}

/** Adds a message to a turn of another gateway. Null if the run has ended or has no room for more. */
export function* joinRun(
  p: { run_id: string; max_joins: number; tape: TapeRows; once: CompletedKey | null },
  dialect: SqlDialect,
): Op<AppendedRows | null> {
  const { org_id, project_id, workspace, session_id } = p.tape.key;
  const [joined] = yield sql(
    `update runs set joins = joins + 1 where id = $1 and status = 'running' and joins < $2
      and org_id = $3 and project_id = $4 and workspace = $5 and session_id = $6 returning id`,
    [p.run_id, p.max_joins, org_id, project_id, workspace, session_id],
  );
  if (joined === undefined) return null;
  const written = yield* appendEntries({ ...p.tape, chain_id: null }, dialect);
  if (p.once !== null) yield* completeKeyWith(p.once, { entry_id: written.last_id }, dialect);
  return written;
}

export interface ResumeRun {
  id: string;
  node_id: string;
  fence: number;
  body: string;
  tape: TapeRows;
}

/** Null if the run has ended, or another node has taken it over since. */
export function* resumeRun(p: ResumeRun, dialect: SqlDialect): Op<AppendedRows | null> {
  const updated = yield sql(
    "update runs set body = $2 where id = $1 and node_id = $3 and fence = $4 and status = 'running' returning id",
    [p.id, p.body, p.node_id, p.fence],
  );
  return updated.length === 0 ? null : yield* writeTape(p.tape, dialect);
}

/**
 * Takes over the runs of nodes whose lease has expired. Their open calls are released in the same transaction: no node
 * owns them until they are claimed, and nobody can settle them with the old fence.
 */
export function* claimRuns(
  p: { node_id: string; now: number | null; limit: number },
  dialect: SqlDialect,
): Op<Row[]> {
  const runs = dialect === "sqlite" ? "runs r indexed by runs_running" : "runs r";
  const orphans = yield sql(
    `select r.id, r.node_id from ${runs}
      where r.status = 'running' and r.node_id <> $1 ${expiredNodeCondition(dialect, "r.node_id", "$3")}
      order by r.id limit $2 ${rowLock(dialect, "for update of r skip locked")}`,
    dialect === "sqlite" ? [p.node_id, p.limit] : [p.node_id, p.limit, p.now],
  );
  const claimed: Row[] = [];
  for (const orphan of orphans) {
    const [run] = yield sql(
      `update runs set node_id = $2, fence = fence + 1 where id = $1 returning ${RUN_COLUMNS}`,
      [orphan.id as string, p.node_id],
    );
    yield sql(
      `update invocations set node_id = '', fence = fence + 1
        where org_id = $1 and session_id = $2 and node_id = $3 and status in ('running', 'waiting_approval')`,
      [run!.org_id as string, run!.session_id as string, orphan.node_id as string],
    );
    claimed.push(run!);
  }
  return claimed;
}

export function* readRun(org_id: string, project_id: string, id: string): Op<Row | undefined> {
  return (yield sql(
    `select ${RUN_COLUMNS} from runs
      where id = $3 and ${checkedCondition("runs", "org_id = $1 and ($2 = '' or project_id = $2)")}`,
    [org_id, project_id, id],
  ))[0];
}

export function* readFirstRun(key: SessionKeyColumns): Op<Row | undefined> {
  return (yield sql(
    `select ${RUN_COLUMNS} from runs where ${SESSION_KEY} and session_id = $4 order by id limit 1`,
    keyValues(key),
  ))[0];
}

export interface ListRuns {
  org_id: string;
  project_id: string;
  session_id: string | null;
  chain_id: string | null;
  workspace: string | null;
  before: string;
  limit: number;
}

/** Runs of a chain are searched among those of its session: a separate index would make every turn a tenth slower. */
export function* listRuns(p: ListRuns): Op<Row[]> {
  const conditions = ["org_id = $1", "id < $2"];
  const values: SqlValue[] = [p.org_id, p.before, p.limit];
  if (p.project_id !== "") {
    const in_project = `project_id = $${values.push(p.project_id)}`;
    // The index of the session has no project.
    const by_session = p.session_id !== null || p.chain_id !== null;
    conditions.push(by_session ? checkedCondition("runs", in_project) : in_project);
  }
  if (p.session_id !== null) conditions.push(`session_id = $${values.push(p.session_id)}`);
  if (p.chain_id !== null) {
    const n = values.push(p.chain_id);
    conditions.push(
      checkedCondition("runs", `chain_id = $${n}`),
      `session_id = (select session_id from chains where id = $${n})`,
    );
  }
  if (p.workspace !== null) {
    conditions.push(checkedCondition("runs", `workspace = $${values.push(p.workspace)}`));
  }
  return yield sql(
    `select ${RUN_COLUMNS} from runs where ${conditions.join(" and ")} order by id desc limit $3`,
    values,
  );
}
