/** running → one of the other statuses, once. Locks: the run, then its session, then the facts. */

import { type AppendedRows, appendEntries } from "./entries.ts";
import { type FactRows, writeFacts } from "./facts.ts";
import { findHeld, findRunning, type HoldColumns, refuseBusy, requireHeld } from "./holds.ts";
import { type TakeKey, takeKeyFor } from "./idempotency.ts";
import { ofGoneNode } from "./leases.ts";
import { type Dialect, locked, type Op, type Row, type SqlValue, sql } from "./op.ts";
import { type TapeRows, writeTape } from "./tape.ts";

const RUN_COLUMNS =
  "id, org_id, project_id, workspace, session_id, chain_id, status, node_id, body, outcome, output_entry, fence, joins";

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
  values ($1, $2, $3, $4, $5, $6, $7, $8, $9, null, null, 0, 0) on conflict do nothing`;
const INSERT_RUN_RETURNING = `${INSERT_RUN} returning id`;

/**
 * The row names the chain that its message is on. Appending locks the session's row, so of two gateways that begin a
 * turn one is second, finds the other's row and is refused with `session.busy`. `parent` is the turn that a sub-agent's
 * run belongs to.
 */
export function* startRun(
  p: { run: RunColumns; parent: HoldColumns | null; tape: TapeRows; facts: FactRows; once: TakeKey | null },
  dialect: Dialect,
): Op<AppendedRows> {
  const { run } = p;
  if (p.parent !== null) yield* requireHeld(p.parent, dialect);
  const written = yield* appendEntries({ ...p.tape, chain_id: null }, dialect);
  if (p.once !== null) {
    yield* takeKeyFor(p.once, { id: run.id, entry_id: written.last_id }, dialect);
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
  ]);
  if (inserted.length === 0) refuseBusy((yield* findRunning(p.tape.key)) ?? run.id);
  yield* writeFacts(p.facts);
  return written;
}

export interface EndRun {
  hold: HoldColumns;
  /** Messages of other gateways that the turn has read; more than these keep it from ending. */
  joins: number;
  org_id: string;
  project_id: string;
  status: string;
  outcome: string;
  /** Null: there is no output. Otherwise what stands when no entry is written. */
  output_entry: number | null;
  tape: TapeRows | null;
  facts: FactRows;
}

/** Null: another gateway has it, or it has ended. */
export function* endRun(p: EndRun, dialect: Dialect): Op<AppendedRows | { joins: number } | null> {
  const { run_id } = p.hold;
  const held = yield* findHeld(p.hold, dialect);
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
  yield* writeFacts(p.facts);
  return written ?? { chain_id: held.chain_id as string, first_id: 1, last_id: 0 };
}

/** A message for a turn of another gateway. Null: the run has ended, or has as many as it takes. */
export function* joinRun(
  p: { run_id: string; most: number; tape: TapeRows; once: TakeKey | null },
  dialect: Dialect,
): Op<AppendedRows | null> {
  const { org_id, project_id, workspace, session_id } = p.tape.key;
  const [joined] = yield sql(
    `update runs set joins = joins + 1 where id = $1 and status = 'running' and joins < $2
      and org_id = $3 and project_id = $4 and workspace = $5 and session_id = $6 returning id`,
    [p.run_id, p.most, org_id, project_id, workspace, session_id],
  );
  if (joined === undefined) return null;
  const written = yield* appendEntries({ ...p.tape, chain_id: null }, dialect);
  if (p.once !== null) yield* takeKeyFor(p.once, { entry_id: written.last_id }, dialect);
  return written;
}

export interface ResumeRun {
  id: string;
  node_id: string;
  fence: number;
  body: string;
  tape: TapeRows;
}

/** Only for the node that has claimed it: another may have taken it over since. */
export function* resumeRun(p: ResumeRun, dialect: Dialect): Op<AppendedRows | null> {
  const hit = yield sql(
    "update runs set body = $2 where id = $1 and node_id = $3 and fence = $4 and status = 'running' returning id",
    [p.id, p.body, p.node_id, p.fence],
  );
  return hit.length === 0 ? null : yield* writeTape(p.tape, dialect);
}

/**
 * Takes over what gone nodes left. The open calls of such a run go with it, in the same transaction: they belong to
 * nobody until they are claimed, and their old fence ends no call any more.
 */
export function* claimRuns(
  p: { node_id: string; now: number | null; limit: number },
  dialect: Dialect,
): Op<Row[]> {
  const runs = dialect === "sqlite" ? "runs r indexed by runs_running" : "runs r";
  const orphans = yield sql(
    `select r.id, r.node_id from ${runs}
      where r.status = 'running' and r.node_id <> $1 ${ofGoneNode(dialect, "r.node_id", "$3")}
      order by r.id limit $2 ${locked(dialect, "for update of r skip locked")}`,
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
    `select ${RUN_COLUMNS} from runs where id = $3 and org_id = $1 and ($2 = '' or project_id = $2)`,
    [org_id, project_id, id],
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

/** A chain's runs are found among its session's: an index of their own would make every turn dearer by a tenth. */
export function* listRuns(p: ListRuns): Op<Row[]> {
  const conditions = ["org_id = $1", "id < $2"];
  const values: SqlValue[] = [p.org_id, p.before, p.limit];
  if (p.project_id !== "") conditions.push(`project_id = $${values.push(p.project_id)}`);
  if (p.session_id !== null) conditions.push(`session_id = $${values.push(p.session_id)}`);
  if (p.chain_id !== null) {
    const n = values.push(p.chain_id);
    conditions.push(`chain_id = $${n}`, `session_id = (select session_id from chains where id = $${n})`);
  }
  if (p.workspace !== null) conditions.push(`workspace = $${values.push(p.workspace)}`);
  return yield sql(
    `select ${RUN_COLUMNS} from runs where ${conditions.join(" and ")} order by id desc limit $3`,
    values,
  );
}
