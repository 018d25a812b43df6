/** Runs in columns: what is searched, one JSON text fixed at the start, one at the end. */
import type { Run } from "@backplane/contract";
import type { RunEnd, RunRow, RunStore } from "@backplane/kernel/ports";
import type { Backend } from "../backend.ts";
import type { Row } from "../op.ts";
import { listRuns, type RunColumns, readRun } from "../ops/runs.ts";
import { encodeFacts } from "./facts.ts";
import { encodeOnce } from "./once-key.ts";
import { beforeOf, pageOf, projectColumn, projectOf } from "./scope.ts";
import { encodeTape, scopeColumns } from "./session-row.ts";

type Fixed = Pick<
  Run,
  | "parent_run_id"
  | "trigger"
  | "strategy"
  | "input"
  | "requested_by"
  | "started_at"
  | "usage"
  | "iterations"
  | "resumed"
>;
type Outcome = Omit<RunEnd, "status">;

const NOT_ENDED = { output: null, error: null, ended_at: null };

export function createRunStore(backend: Backend): RunStore {
  return {
    async start(run, tape, facts, once) {
      const written = await backend.write("startRun", {
        run: encodeRun(run),
        tape: encodeTape(tape),
        facts: encodeFacts(facts),
        once: encodeOnce(backend, once),
      });
      if (facts.events !== undefined) backend.appended();
      return written;
    },
    async end(scope, id, end, tape, facts) {
      const ended = await backend.write("endRun", {
        id,
        ...scopeColumns(scope),
        status: end.status,
        outcome: encodeOutcome(end),
        output_entry: end.output?.entry_id ?? null,
        tape: tape === null ? null : encodeTape(tape),
        facts: encodeFacts(facts),
      });
      if (ended !== null && facts.events !== undefined) backend.appended();
      return ended;
    },
    async resume(run, tape) {
      const { id, node_id, body } = encodeRun(run);
      return await backend.write("resumeRun", { id, node_id, body, tape: encodeTape(tape) });
    },
    async get(scope, id) {
      const row = await backend.read(() => readRun(scope.org_id, projectColumn(scope.project_id), id));
      return row === undefined ? null : publicRun(row);
    },
    async list(scope, filter, page) {
      const rows = await backend.read(() =>
        listRuns({
          ...scopeColumns(scope),
          session_id: filter.session_id ?? null,
          chain_id: filter.chain_id ?? null,
          workspace: filter.workspace ?? null,
          before: beforeOf(page),
          limit: page.limit + 1,
        }),
      );
      return pageOf(rows, page, (row) => row.id as string, publicRun);
    },
    async claimOrphans(node_id, now, limit) {
      const rows = await backend.write("claimRuns", { node_id, now: backend.at(now), limit });
      return rows.map(decodeRun).sort((a, b) => (a.id < b.id ? -1 : 1));
    },
  };
}

function encodeRun(run: RunRow): RunColumns {
  const { parent_run_id, trigger, strategy, input, requested_by, started_at, usage, iterations } = run;
  const fixed: Fixed = {
    parent_run_id,
    trigger,
    strategy,
    input,
    requested_by,
    started_at,
    usage,
    iterations,
    ...(run.resumed === undefined ? {} : { resumed: run.resumed }),
  };
  return {
    id: run.id,
    ...scopeColumns(run),
    workspace: run.workspace,
    session_id: run.session_id,
    status: run.status,
    node_id: run.node_id,
    body: JSON.stringify(fixed),
  };
}

function encodeOutcome({ output, error, usage, iterations, ended_at }: RunEnd): string {
  return JSON.stringify({ output, error, usage, iterations, ended_at } satisfies Outcome);
}

function decodeRun(row: Row): RunRow {
  const fixed = JSON.parse(row.body as string) as Fixed;
  const outcome = row.outcome === null ? NOT_ENDED : (JSON.parse(row.outcome as string) as Outcome);
  const { output } = outcome;
  return {
    id: row.id as string,
    org_id: row.org_id as string,
    project_id: projectOf(row.project_id),
    workspace: row.workspace as string,
    session_id: row.session_id as string,
    chain_id: row.chain_id as string,
    status: row.status as Run["status"],
    ...fixed,
    ...outcome,
    output: output === null ? null : { ...output, entry_id: row.output_entry as number },
    node_id: row.node_id as string,
  };
}

function publicRun(row: Row): Run {
  const { node_id: _node, ...run } = decodeRun(row);
  return run;
}
