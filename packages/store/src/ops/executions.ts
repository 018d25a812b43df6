/**
 * Harness executions. Every limit is checked by the update that counts towards it, so concurrent runs and gateways
 * cannot exceed it together.
 */
import { type Op, type Row, refuse, type SqlValue, sql } from "./op.ts";

const COLUMNS = `id, org_id, project_id, invocation_id, run_id, status, chain_id, depth, deadline, starts, max_depth,
  max_child_runs, max_steps, max_compactions, child_runs, steps, compactions, checkpoints, checkpoint, body`;

const INSERT_EXECUTION = `insert into executions (${COLUMNS}) values ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12,
  $13, $14, $15, $16, $17, $18, $19, $20)`;

export type ExecutionRows =
  /** In the order of COLUMNS. */
  { row: SqlValue[] } | { resumes: string; invocation_id: string; run_id: string | null; body: string };

/** Begins an execution, or reopens an ended one for the call that resumes it. */
export function* openExecution(p: ExecutionRows): Op<void> {
  if ("row" in p) {
    yield sql(INSERT_EXECUTION, p.row);
    return;
  }
  const resumed = yield sql(
    `update executions set status = 'running', invocation_id = $2, run_id = $3, starts = 1, body = $4
      where id = $1 and status <> 'running' returning id`,
    [p.resumes, p.invocation_id, p.run_id, p.body],
  );
  if (resumed.length === 0)
    refuse("execution.running", `The execution ${p.resumes} is running.`, { execution_id: p.resumes });
}

export function* saveCheckpoint(p: {
  id: string;
  invocation_id: string;
  fence: number;
  checkpoint: string;
}): Op<boolean> {
  const saved = yield sql(
    `update executions set checkpoint = $4, checkpoints = checkpoints + 1, starts = 0
      where id = $1 and invocation_id = $2 and status = 'running'
      and exists (select 1 from invocations i where i.id = $2 and i.fence = $3 and i.status = 'running') returning id`,
    [p.id, p.invocation_id, p.fence, p.checkpoint],
  );
  return saved.length > 0;
}

export function* countStart(p: { id: string; invocation_id: string }): Op<Row | null> {
  const [row] = yield sql(
    `update executions set starts = starts + 1 where id = $1 and invocation_id = $2 and status = 'running'
      returning ${COLUMNS}`,
    [p.id, p.invocation_id],
  );
  return row ?? null;
}

export function* setExecutionChain(p: { id: string; invocation_id: string; chain_id: string }): Op<boolean> {
  const set = yield sql(
    "update executions set chain_id = $3 where id = $1 and invocation_id = $2 and status = 'running' returning id",
    [p.id, p.invocation_id, p.chain_id],
  );
  return set.length > 0;
}

export function* endExecution(p: {
  id: string;
  invocation_id: string;
  status: string;
  checkpoint: string | null;
}): Op<void> {
  yield sql(
    `update executions set status = $3, checkpoint = coalesce($4, checkpoint),
      checkpoints = checkpoints + case when $4 is null then 0 else 1 end
      where id = $1 and invocation_id = $2`,
    [p.id, p.invocation_id, p.status, p.checkpoint],
  );
}

/** `depth` is the depth of the run that would start. If the transaction is refused later, the count is rolled back. */
export function* countChildRun(p: { id: string; depth: number }): Op<void> {
  const counted = yield sql(
    `update executions set child_runs = child_runs + 1
      where id = $1 and status = 'running' and child_runs < max_child_runs and $2 - depth <= max_depth returning id`,
    [p.id, p.depth],
  );
  if (counted.length > 0) return;
  const [row] = yield* readRow(p.id);
  const relative_depth = row === undefined ? 0 : p.depth - (row.depth as number);
  if (row !== undefined && row.status === "running" && relative_depth > (row.max_depth as number))
    refuseLimit("max_depth", row.max_depth as number, p.id);
  refuseUse(row, "child_runs", "max_child_runs", p.id);
}

export function* countStep(p: { id: string }): Op<void> {
  const counted = yield sql(
    "update executions set steps = steps + 1 where id = $1 and status = 'running' and steps < max_steps returning id",
    [p.id],
  );
  if (counted.length > 0) return;
  const [row] = yield* readRow(p.id);
  refuseUse(row, "steps", "max_steps", p.id);
}

/** Part of the transaction that begins the compacted chain, so a compaction that fails is not counted. */
export function* countCompaction(id: string): Op<void> {
  const counted = yield sql(
    `update executions set compactions = compactions + 1
      where id = $1 and status = 'running' and compactions < max_compactions returning id`,
    [id],
  );
  if (counted.length === 0) yield* requireCompaction({ id });
}

/** Refuses an execution that has no compactions left. Used before a compactor is called. */
export function* requireCompaction(p: { id: string }): Op<void> {
  const [row] = yield* readRow(p.id);
  const has_compactions_left =
    row?.status === "running" && (row.compactions as number) < (row.max_compactions as number);
  if (!has_compactions_left) refuseUse(row, "compactions", "max_compactions", p.id);
}

function* readRow(id: string): Op<Row[]> {
  return yield sql(`select ${COLUMNS} from executions where id = $1`, [id]);
}

function refuseUse(row: Row | undefined, counter: string, limit: string, execution_id: string): never {
  if (row?.status !== "running")
    refuse("harness.limit", `The execution ${execution_id} has ended.`, { execution_id, limit: "ended" });
  return refuseLimit(limit, row[limit] as number, execution_id, row[counter] as number);
}

function refuseLimit(limit: string, max: number, execution_id: string, used?: number): never {
  refuse("harness.limit", `The execution ${execution_id} has reached its ${limit}, ${max}.`, {
    execution_id,
    limit,
    max,
    ...(used === undefined ? {} : { used }),
  });
}

/**
 * The scope is compared after the row is read and its checksum verified: no index holds the scope, so a damaged scope
 * in the condition would hide the row without an error.
 */
export function* readExecution(org_id: string, project_id: string, id: string): Op<Row | undefined> {
  const [row] = yield* readRow(id);
  if (row === undefined || row.org_id !== org_id) return undefined;
  return project_id === "" || row.project_id === project_id ? row : undefined;
}
