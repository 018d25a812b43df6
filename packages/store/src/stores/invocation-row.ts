/** An invocation in columns: what is searched or changed on its own, one JSON text fixed at open, one at settle. */
import type { NewDelegation, InvocationRow, Settlement } from "@backplane/kernel/ports";
import { isTerminal } from "@backplane/contract";
import type { Row, SqlValue } from "../op.ts";
import { projectColumn, projectOf } from "./scope.ts";

type Outcome = Pick<
  InvocationRow,
  "result" | "tool_result" | "error" | "violations" | "stderr_tail" | "ended_at"
>;
type Fixed = Pick<
  InvocationRow,
  | "export_kind"
  | "binding_generation"
  | "package_id"
  | "package_version"
  | "package_digest"
  | "class"
  | "effect_class"
  | "chain_id"
  | "run_id"
  | "trace_id"
  | "execution_id"
  | "grant"
  | "input"
  | "approval_id"
  | "timeout_ms"
  | "requested_by"
  | "created_at"
  | "delivery_id"
>;

const NO_OUTCOME: Outcome = {
  result: null,
  tool_result: null,
  error: null,
  violations: 0,
  stderr_tail: null,
  ended_at: null,
};

/** In the order of INVOCATION_COLUMNS. */
export function encodeInvocation(row: InvocationRow): SqlValue[] {
  const fixed: Fixed = {
    export_kind: row.export_kind,
    binding_generation: row.binding_generation,
    package_id: row.package_id,
    package_version: row.package_version,
    package_digest: row.package_digest,
    class: row.class,
    effect_class: row.effect_class,
    chain_id: row.chain_id,
    run_id: row.run_id,
    trace_id: row.trace_id,
    execution_id: row.execution_id,
    grant: row.grant,
    input: row.input,
    approval_id: row.approval_id,
    timeout_ms: row.timeout_ms,
    requested_by: row.requested_by,
    created_at: row.created_at,
    delivery_id: row.delivery_id,
  };
  return [
    row.id,
    row.org_id,
    projectColumn(row.project_id),
    row.status,
    row.export_id,
    row.binding_id,
    row.session_id,
    row.node_id,
    row.fence,
    row.retry_count,
    row.started_at,
    JSON.stringify(fixed),
    isTerminal(row.status) ? encodeOutcome(row) : null,
  ];
}

export function encodeOutcome(end: Outcome | Settlement): string {
  const { result, tool_result, error, violations, stderr_tail, ended_at } = end;
  return JSON.stringify({ result, tool_result, error, violations, stderr_tail, ended_at } satisfies Outcome);
}

export function decodeInvocation(row: Row): InvocationRow {
  const fixed = JSON.parse(row.body as string) as Fixed;
  const outcome = row.outcome === null ? NO_OUTCOME : (JSON.parse(row.outcome as string) as Outcome);
  return {
    id: row.id as string,
    ...fixed,
    export_id: row.export_id as string,
    binding_id: row.binding_id as string,
    status: row.status as InvocationRow["status"],
    org_id: row.org_id as string,
    project_id: projectOf(row.project_id),
    session_id: row.session_id as string | null,
    retry_count: row.retry_count as number,
    ...outcome,
    started_at: row.started_at as string | null,
    node_id: row.node_id as string,
    fence: row.fence as number,
  };
}

export function encodeDelegation(delegation: NewDelegation | undefined): SqlValue[] | null {
  if (delegation === undefined) return null;
  return [
    delegation.token_hash,
    delegation.invocation_id,
    delegation.scope.org_id,
    projectColumn(delegation.scope.project_id),
    JSON.stringify(delegation.scopes),
    delegation.expires_at,
  ];
}
