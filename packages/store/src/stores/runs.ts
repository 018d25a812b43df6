/**
 * A run is stored as the columns that are searched or updated, the JSON text `body` with the other fields, and the JSON
 * text `outcome`, which is written at the end.
 */
import { addTokenUsage, type Run, tokenUsage } from "@backplane/contract";
import type { RunEnd, RunRow, RunStore } from "@backplane/ports";
import type { Backend } from "../backend/backend.ts";
import { readHeldRun } from "../ops/holds.ts";
import type { Row } from "../ops/op.ts";
import { EXECUTING, listRuns, type RunColumns, readFirstRun, readRun } from "../ops/runs.ts";
import { encodeRecords } from "./change-records.ts";
import { encodeClaim } from "./idempotency.ts";
import { pageCursor, toPage } from "./page.ts";
import { projectColumn, projectOf, scopeColumns } from "./scope.ts";
import { encodeHold, encodeTape, keyColumns } from "./session-row.ts";

type BodyFields = Pick<
  RunRow,
  | "parent_run_id"
  | "trigger"
  | "strategy"
  | "input"
  | "requested_by"
  | "started_at"
  | "usage"
  | "iterations"
  | "resumed"
  | "trace_id"
  | "harness"
  | "channel"
  | "subagent"
>;
type Outcome = Omit<RunEnd, "status">;

const NOT_ENDED = { output: null, error: null, ended_at: null };

export function createRunStore(backend: Backend): RunStore {
  return {
    async start(run, tape, own_entries, records, once, parent, execution) {
      const written = await backend.write("startRun", {
        run: encodeRun(run),
        parent: parent === undefined ? null : encodeHold(parent),
        tape: encodeTape(tape),
        own_entries,
        records: encodeRecords(records),
        once: encodeClaim(backend, once),
        execution: execution ?? null,
      });
      if (records.events !== undefined) backend.notifyAppended();
      return written;
    },
    async end(scope, hold, joins, end, tape, records) {
      const ended = await backend.write("endRun", {
        hold: encodeHold(hold),
        joins,
        ...scopeColumns(scope),
        status: end.status,
        outcome: encodeRunEnd(end),
        output_entry: end.output?.entry_id ?? null,
        tape: tape === null ? null : encodeTape(tape),
        records: encodeRecords(records),
      });
      if (ended === null || !("last_id" in ended)) return ended;
      if (records.events !== undefined) backend.notifyAppended();
      const { endpoint_use, ...entries } = ended;
      return { ...entries, ...addEndpointUse(end, endpoint_use) };
    },
    join: (run_id, max_joins, tape, once) =>
      backend.write("joinRun", {
        run_id,
        max_joins,
        tape: encodeTape(tape),
        once: encodeClaim(backend, once),
      }),
    async resume(run, tape) {
      const { id, node_id, body } = encodeRun(run);
      return await backend.write("resumeRun", {
        id,
        node_id,
        fence: run.fence,
        body,
        tape: encodeTape(tape),
      });
    },
    async checkHold(hold) {
      const row = await backend.read(() => readHeldRun(encodeHold(hold)));
      return row === undefined ? null : { joins: row.joins as number };
    },
    async get(scope, id) {
      const row = await backend.read(() => readRun(scope.org_id, projectColumn(scope.project_id), id));
      return row === undefined ? null : decodePublicRun(row);
    },
    async findFirst(key) {
      const row = await backend.read(() => readFirstRun(keyColumns(key)));
      return row === undefined ? null : decodeRun(row);
    },
    async list(scope, filter, page) {
      const rows = await backend.read(() =>
        listRuns({
          ...scopeColumns(scope),
          session_id: filter.session_id ?? null,
          chain_id: filter.chain_id ?? null,
          workspace: filter.workspace ?? null,
          before: pageCursor(page),
          limit: page.limit + 1,
        }),
      );
      return toPage(rows, page, (row) => row.id as string, decodePublicRun);
    },
    async claimOrphans(node_id, now, limit) {
      const rows = await backend.write("claimRuns", { node_id, now: backend.selectTime(now), limit });
      return rows.map(decodeRun).sort((a, b) => (a.id < b.id ? -1 : 1));
    },
  };
}

export function encodeRun(run: RunRow): RunColumns {
  const { parent_run_id, trigger, strategy, input, requested_by, started_at, usage, iterations } = run;
  const body: BodyFields = {
    parent_run_id,
    trigger,
    strategy,
    input,
    requested_by,
    started_at,
    usage,
    iterations,
    ...(run.resumed === undefined ? {} : { resumed: run.resumed }),
    ...(run.trace_id === undefined ? {} : { trace_id: run.trace_id }),
    ...(run.harness === undefined ? {} : { harness: run.harness }),
    ...(run.channel === undefined ? {} : { channel: run.channel }),
    ...(run.subagent === undefined ? {} : { subagent: run.subagent }),
  };
  return {
    id: run.id,
    ...scopeColumns(run),
    workspace: run.workspace,
    session_id: run.session_id,
    status: run.status,
    node_id: run.node_id,
    body: JSON.stringify(body),
  };
}

export function encodeRunEnd({ output, error, usage, iterations, ended_at }: RunEnd): string {
  return JSON.stringify({ output, error, usage, iterations, ended_at } satisfies Outcome);
}

function decodeRun(row: Row): RunRow {
  const body = JSON.parse(row.body as string) as BodyFields;
  const outcome = row.outcome === null ? NOT_ENDED : (JSON.parse(row.outcome as string) as Outcome);
  const { output } = outcome;
  return {
    id: row.id as string,
    org_id: row.org_id as string,
    project_id: projectOf(row.project_id),
    workspace: row.workspace as string,
    session_id: row.session_id as string,
    chain_id: row.chain_id as string,
    status: row.status === EXECUTING ? "running" : (row.status as Run["status"]),
    first_entry_id: row.first_entry as number,
    ...body,
    ...outcome,
    output: output === null ? null : { ...output, entry_id: row.output_entry as number },
    node_id: row.node_id as string,
    fence: row.fence as number,
    joins: row.joins as number,
  };
}

function decodePublicRun(row: Row): Run {
  const { node_id: _node, fence: _fence, joins: _joins, subagent: _subagent, ...run } = decodeRun(row);
  return { ...run, ...addEndpointUse(run, row) };
}

/**
 * Adds the use of the model endpoints, for readers only. A gateway that continues a run needs the usage of its own loop,
 * to which it adds.
 */
function addEndpointUse(
  { usage, iterations }: Pick<Run, "usage" | "iterations">,
  row: Row,
): Pick<Run, "usage" | "iterations"> {
  const used = tokenUsage({
    input_other: row.endpoint_input_other as number,
    input_cache_read: row.endpoint_cache_read as number,
    input_cache_creation: row.endpoint_cache_creation as number,
    output: row.endpoint_output as number,
  });
  return {
    usage: addTokenUsage(usage, used),
    iterations: iterations + (row.endpoint_calls as number),
  };
}
