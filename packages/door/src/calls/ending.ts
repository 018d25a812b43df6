/** How a call ends, before it is recorded. */
import {
  type ErrorCode,
  type ErrorDetails,
  type Invocation,
  type InvocationError,
  type Json,
  type JsonObject,
  type TerminalStatus,
  type ToolResult,
  type ToolResultBlock,
  toolFailureOf,
} from "@backplane/contract";
import type { StopCause } from "./live-calls.ts";

export interface CallEnding {
  status: TerminalStatus;
  result: Json | null;
  error: InvocationError | null;
  retry_count: number;
  violations: number;
  stderr_tail: string | null;
  /** Null keeps the value of the row. */
  started_at: string | null;
}

export function failedWith(
  code: ErrorCode,
  message: string,
  options: { details?: ErrorDetails | undefined; status?: TerminalStatus; retry_count?: number } = {},
): CallEnding {
  const error: InvocationError = { code, message };
  if (options.details !== undefined) error.details = options.details as JsonObject;
  return {
    status: options.status ?? "failed",
    result: null,
    error,
    retry_count: options.retry_count ?? 0,
    violations: 0,
    stderr_tail: null,
    started_at: null,
  };
}

export function cancelledBy(reason: StopCause, retry_count = 0): CallEnding {
  if (typeof reason === "object") {
    const { code, message, details, fix } = reason;
    return failedWith(code, message, { details: { ...details, fix }, retry_count });
  }
  return reason === "user"
    ? failedWith("cancelled", "The invocation was cancelled.", { status: "cancelled", retry_count })
    : failedWith("gateway_stopping", "The gateway stopped before the call ended.", { retry_count });
}

/** The host, never the tool, writes this block, however a tool call ends (tool.contract). */
export function buildToolResultBlock(
  row: Pick<Invocation, "export_kind" | "export_id" | "execution_id">,
  end: Pick<CallEnding, "status" | "result" | "error" | "stderr_tail">,
): ToolResultBlock | null {
  if (row.export_kind !== "tool") return null;
  const block: ToolResultBlock = {
    kind: "tool_result",
    tool_execution_id: row.execution_id,
    tool: row.export_id,
    is_error: end.status !== "succeeded",
    content: [],
  };
  const failure = toolFailureOf(end);
  if (failure !== null) block.failure = failure;
  if (end.result === null) {
    block.content = [
      { type: "text", text: end.error?.message ?? `The tool ended with the status ${end.status}.` },
    ];
    return block;
  }
  const result = end.result as unknown as ToolResult;
  block.content = result.content;
  block.is_error ||= result.is_error;
  if (result.structured_output !== undefined) block.structured_output = result.structured_output;
  if (result.status !== undefined) block.status = result.status;
  if (result.yield_to_user === true) block.yield_to_user = true;
  return block;
}
