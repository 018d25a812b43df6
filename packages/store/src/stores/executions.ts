import type { Execution, HarnessCheckpoint } from "@backplane/contract";
import type { ExecutionRow, ExecutionStore, NewExecution, OpenRecords } from "@backplane/ports";
import type { Backend } from "../backend/backend.ts";
import { type ExecutionRows, readExecution } from "../ops/executions.ts";
import type { Row, SqlValue } from "../ops/op.ts";
import { projectColumn, projectOf } from "./scope.ts";

type BodyFields = Pick<Execution, "export_id" | "binding_id" | "target" | "trigger" | "policy">;

export function createExecutionStore(backend: Backend): ExecutionStore {
  return {
    async get(scope, id) {
      const row = await backend.read(() => readExecution(scope.org_id, projectColumn(scope.project_id), id));
      return row === undefined ? null : decodeExecution(row);
    },
    saveCheckpoint: (id, { invocation_id, fence }, checkpoint) =>
      backend.write("saveCheckpoint", { id, invocation_id, fence, checkpoint: JSON.stringify(checkpoint) }),
    async countStart(id, invocation_id) {
      const row = await backend.write("countStart", { id, invocation_id });
      return row === null ? null : decodeExecution(row);
    },
    setChain: (id, invocation_id, chain_id) =>
      backend.write("setExecutionChain", { id, invocation_id, chain_id }),
    countStep: (id) => backend.write("countStep", { id }),
    requireCompaction: (id) => backend.write("requireCompaction", { id }),
  };
}

export function encodeExecution(
  execution: OpenRecords["execution"],
  invocation_id: string,
  run_id: string | null,
): ExecutionRows | null {
  if (execution === undefined) return null;
  if (!("resumes" in execution)) return { row: encodeRow(execution) };
  const { id } = execution.resumes;
  return { resumes: id, invocation_id, run_id, body: encodeBody(execution.resumes) };
}

function encodeRow(execution: NewExecution): SqlValue[] {
  const { id, scope, invocation_id, run_id, depth, deadline, policy, target } = execution;
  return [
    id,
    scope.org_id,
    projectColumn(scope.project_id),
    invocation_id,
    run_id,
    "running",
    target.chain_id ?? null,
    depth,
    deadline,
    execution.starts,
    policy.max_depth,
    policy.max_child_runs,
    policy.max_steps,
    policy.allow_compaction ? policy.max_compactions : 0,
    0,
    0,
    0,
    0,
    null,
    encodeBody(execution),
  ];
}

function encodeBody({ export_id, binding_id, target, trigger, policy }: BodyFields): string {
  return JSON.stringify({ export_id, binding_id, target, trigger, policy } satisfies BodyFields);
}

function decodeExecution(row: Row): ExecutionRow {
  const body = JSON.parse(row.body as string) as BodyFields;
  const deadline = row.deadline as number | null;
  const checkpoint = row.checkpoint as string | null;
  return {
    id: row.id as string,
    org_id: row.org_id as string,
    project_id: projectOf(row.project_id),
    status: row.status as Execution["status"],
    ...body,
    target: row.chain_id === null ? body.target : { ...body.target, chain_id: row.chain_id as string },
    invocation_id: row.invocation_id as string,
    run_id: row.run_id as string | null,
    used: {
      child_runs: row.child_runs as number,
      steps: row.steps as number,
      compactions: row.compactions as number,
    },
    checkpoint: checkpoint === null ? null : (JSON.parse(checkpoint) as HarnessCheckpoint),
    checkpoints: row.checkpoints as number,
    deadline_at: deadline === null ? null : new Date(deadline).toISOString(),
    depth: row.depth as number,
    starts: row.starts as number,
    deadline,
  };
}
