/** running → one of the other statuses, once. Locks: the run, then its session, then the facts. */
import { type Dialect, locked, type Op, type Row, type SqlValue, sql } from "../op.ts";
import { type AppendedRows, appendEntries } from "./entries.ts";
import { type FactRows, writeFacts } from "./facts.ts";
import { type TakeKey, takeKeyFor } from "./idempotency.ts";
import { ofGoneNode } from "./leases.ts";
import { type TapeRows, writeTape } from "./tape.ts";

const RUN_COLUMNS =
  "id, org_id, project_id, workspace, session_id, chain_id, status, node_id, body, outcome, output_entry";

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

const INSERT_RUN = `insert into runs (${RUN_COLUMNS}) values ($1, $2, $3, $4, $5, $6, $7, $8, $9, null, null)`;

/** The row names the chain that its message is on. */
export function* startRun(
  p: { run: RunColumns; tape: TapeRows; facts: FactRows; once: TakeKey | null },
  dialect: Dialect,
): Op<AppendedRows> {
  const { run } = p;
  const written = yield* appendEntries({ ...p.tape, chain_id: null }, dialect);
  if (p.once !== null) {
    yield* takeKeyFor(p.once, { id: run.id, entry_id: written.last_id }, dialect);
  }
  yield sql(INSERT_RUN, [
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
  yield* writeFacts(p.facts);
  return written;
}

export interface EndRun {
  id: string;
  org_id: string;
  project_id: string;
  status: string;
  outcome: string;
  /** Null: there is no output. Otherwise what stands when no entry is written. */
  output_entry: number | null;
  tape: TapeRows | null;
  facts: FactRows;
}

const READ_RUNNING = `select chain_id from runs
  where id = $1 and org_id = $2 and ($3 = '' or project_id = $3) and status = 'running'`;
const LOCK_RUNNING = `${READ_RUNNING} for update`;

export function* endRun(p: EndRun, dialect: Dialect): Op<AppendedRows | null> {
  const read = dialect === "sqlite" ? READ_RUNNING : LOCK_RUNNING;
  const [running] = yield sql(read, [p.id, p.org_id, p.project_id]);
  if (running === undefined) return null;
  const written = yield* writeTape(p.tape, dialect);
  const output_entry = p.output_entry === null ? null : (written?.last_id ?? p.output_entry);
  yield sql("update runs set status = $2, outcome = $3, output_entry = $4 where id = $1", [
    p.id,
    p.status,
    p.outcome,
    output_entry,
  ]);
  yield* writeFacts(p.facts);
  return written ?? { chain_id: running.chain_id as string, first_id: 1, last_id: 0 };
}

export interface ResumeRun {
  id: string;
  node_id: string;
  body: string;
  tape: TapeRows;
}

/** Only for the node that has claimed it: another may have taken it over since. */
export function* resumeRun(p: ResumeRun, dialect: Dialect): Op<AppendedRows | null> {
  const hit = yield sql(
    "update runs set body = $2 where id = $1 and node_id = $3 and status = 'running' returning id",
    [p.id, p.body, p.node_id],
  );
  return hit.length === 0 ? null : yield* writeTape(p.tape, dialect);
}

/** Takes over what gone nodes left. */
export function* claimRuns(
  p: { node_id: string; now: number | null; limit: number },
  dialect: Dialect,
): Op<Row[]> {
  return yield sql(
    `update runs set node_id = $1 where id in (
      select r.id from runs r where r.status = 'running' and r.node_id <> $1 ${ofGoneNode(dialect, "r.node_id", "$3")}
      order by r.id limit $2 ${locked(dialect, "for update of r skip locked")})
      returning ${RUN_COLUMNS}`,
    dialect === "sqlite" ? [p.node_id, p.limit] : [p.node_id, p.limit, p.now],
  );
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
