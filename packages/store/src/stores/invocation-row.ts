/**
 * An invocation is stored as the columns that are searched or often updated, the JSON text `body` with the other
 * fields, and the JSON text `outcome`, which is written when the call is settled.
 */
import { isTerminal, type ToolResult, type ToolResultBlock } from "@backplane/contract";
import type { InvocationRow, Settlement } from "@backplane/ports";
import type { Row, SqlValue } from "../ops/op.ts";
import { projectColumn, projectOf } from "./scope.ts";

type Outcome = Pick<
  InvocationRow,
  "result" | "tool_result" | "error" | "violations" | "stderr_tail" | "egress" | "ended_at"
>;
type BodyFields = Pick<
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
  | "turn"
> &
  Partial<
    Pick<
      InvocationRow,
      "depth" | "role" | "channel" | "within" | "harness_run" | "fallback_from" | "earlier_attempts"
    >
  > & {
    allowed_by?: string;
  };

const NO_OUTCOME: Outcome = {
  result: null,
  tool_result: null,
  error: null,
  violations: 0,
  stderr_tail: null,
  egress: null,
  ended_at: null,
};

/** The text of the column `body`. */
export function encodeBody(row: InvocationRow): string {
  const body: BodyFields = {
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
    turn: row.turn,
    role: row.role,
  };
  if (row.depth > 0) body.depth = row.depth;
  if (row.allowed_by !== null) body.allowed_by = row.allowed_by;
  if (row.channel !== null) body.channel = row.channel;
  if (row.within !== null) body.within = row.within;
  if (row.harness_run !== null) body.harness_run = row.harness_run;
  if (row.fallback_from !== undefined) body.fallback_from = row.fallback_from;
  if (row.earlier_attempts !== undefined) body.earlier_attempts = row.earlier_attempts;
  return JSON.stringify(body);
}

/** In the order of INVOCATION_COLUMNS. */
export function encodeInvocation(row: InvocationRow): SqlValue[] {
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
    encodeBody(row),
    isTerminal(row.status) ? encodeOutcome(row) : null,
  ];
}

/**
 * The result block of a tool repeats the content and structured output of its result. They are stored once if both are
 * the same objects.
 */
type StoredOutcome = Omit<Outcome, "tool_result" | "egress"> & {
  tool_result: Partial<ToolResultBlock> | null;
  /** Missing when nothing was refused, and in rows of earlier versions. */
  egress?: Outcome["egress"];
};

export function encodeOutcome(end: Outcome | Settlement): string {
  const { result, error, violations, stderr_tail, egress, ended_at } = end;
  const tool_result = withoutRepeats(end.tool_result, result as Partial<ToolResult> | null);
  const stored: StoredOutcome = { result, tool_result, error, violations, stderr_tail, ended_at };
  if (egress !== null) stored.egress = egress;
  return JSON.stringify(stored);
}

function withoutRepeats(
  block: ToolResultBlock | null,
  result: Partial<ToolResult> | null,
): StoredOutcome["tool_result"] {
  if (block === null || result === null || block.content !== result.content) return block;
  if (block.structured_output !== result.structured_output) return block;
  const { content: _content, structured_output: _output, ...rest } = block;
  return rest;
}

function decodeOutcome(text: string): Outcome {
  const stored = JSON.parse(text) as StoredOutcome;
  const block = stored.tool_result;
  if (block !== null && block.content === undefined) {
    const result = stored.result as unknown as ToolResult;
    block.content = result.content;
    if (result.structured_output !== undefined) block.structured_output = result.structured_output;
  }
  stored.egress ??= null;
  return stored as Outcome;
}

export function decodeInvocation(row: Row): InvocationRow {
  const body = JSON.parse(row.body as string) as BodyFields;
  const outcome = row.outcome === null ? NO_OUTCOME : decodeOutcome(row.outcome as string);
  return {
    id: row.id as string,
    ...body,
    // Absent from rows of earlier versions. Most of them are also left out if they have the default value.
    turn: body.turn ?? null,
    depth: body.depth ?? 0,
    role: body.role ?? "user",
    channel: body.channel ?? null,
    allowed_by: body.allowed_by ?? null,
    within: body.within ?? null,
    harness_run: body.harness_run ?? null,
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
