/**
 * Converts a settled invocation into the event that ends its tool call: tool.call.result with an envelope if the tool
 * ran, tool.error if the call was rejected before it ran (ktool.dispatch).
 */
import {
  type BusPayload,
  type DisplayBlock,
  type Invocation,
  isObject,
  type Json,
  type JsonObject,
  TOOL_BRIEF_LENGTH,
  type ToolErrorKind,
} from "@backplane/contract";
import { isRegisteredTool } from "@backplane/ports";

export type ToolOutcomeEvent =
  | { kind: "tool.call.result"; payload: BusPayload<"tool.call.result"> }
  | { kind: "tool.error"; payload: BusPayload<"tool.error"> };

export interface CallIds {
  id: string;
  request_id?: string;
}

type SettledCall = Pick<Invocation, "binding_id" | "status" | "error" | "tool_result">;

export function toolOutcomeOf(ids: CallIds, row: SettledCall): ToolOutcomeEvent {
  const outcome = baseOutcome(ids, row);
  const { status, yield_to_user } = row.tool_result ?? {};
  if (outcome.kind === "tool.call.result") {
    if (status !== undefined) outcome.payload.status = status;
    if (yield_to_user === true) outcome.payload.yield_to_user = true;
  }
  return outcome;
}

function baseOutcome(ids: CallIds, row: SettledCall): ToolOutcomeEvent {
  const { error, tool_result } = row;
  if (error !== null) {
    const rejection = refusalKind(error.code);
    if (rejection !== null) return toolErrorOutcome(ids, rejection, error.message, error.details);
    return failed(ids, errorKind(error.code), error.message);
  }
  const structured = tool_result?.structured_output;
  const is_error = tool_result?.is_error === true;
  // The gateway checks the envelope of a registered tool. A bound export's output is a value, whatever its fields are.
  if (isRegisteredTool(row.binding_id) && isEnvelope(structured)) {
    const { ok: _ok, ...envelope } = structured;
    return { kind: "tool.call.result", payload: { ...ids, ok: !is_error, envelope } };
  }
  const text = textOf(tool_result?.content ?? []);
  const display: DisplayBlock =
    text === "" && structured !== undefined ? { kind: "json", data: structured } : { kind: "text", text };
  const payload: BusPayload<"tool.call.result"> = {
    ...ids,
    ok: !is_error,
    envelope: {
      brief: briefOf(displayText(display)),
      display,
      ...(is_error ? { kind: "internal" } : {}),
    },
  };
  if (structured !== undefined) payload.value = structured;
  if (is_error) payload.error = text;
  return { kind: "tool.call.result", payload };
}

export function toolErrorOutcome(
  ids: CallIds,
  kind: BusPayload<"tool.error">["kind"],
  brief: string,
  detail?: JsonObject,
): ToolOutcomeEvent {
  return {
    kind: "tool.error",
    payload: { ...ids, kind, brief, ...(detail === undefined ? {} : { detail }) },
  };
}

function failed(ids: CallIds, kind: ToolErrorKind, message: string): ToolOutcomeEvent {
  const envelope = { kind, brief: briefOf(message), display: { kind: "text", text: message } };
  return { kind: "tool.call.result", payload: { ...ids, ok: false, error: message, envelope } };
}

/** The kind of tool.error for a code of a call that never ran; null for a code that running the tool produced. */
export function refusalKind(code: string): "validation" | "not_found" | "rejected" | null {
  if (code === "input.invalid") return "validation";
  if (code === "export.not_found" || code === "binding.not_found") return "not_found";
  return REJECTED.has(code) || code.startsWith("approval.") || code.startsWith("policy.") ? "rejected" : null;
}

const REJECTED: ReadonlySet<string> = new Set([
  "binding.not_active",
  "sandbox.unavailable",
  "target.host_forbidden",
  "tool.load_failed",
  "class.unsupported",
  "invocation.queue_full",
  "request.overloaded",
  "gateway_stopping",
]);

function errorKind(code: string): ToolErrorKind {
  if (code === "timeout") return "timeout";
  if (code === "cancelled") return "rejected";
  return code === "crashed" || code === "plugin_failed" || code === "plugin_retryable"
    ? "crashed"
    : "internal";
}

function isEnvelope(value: Json | undefined): value is JsonObject {
  return (
    isObject(value) &&
    typeof value.ok === "boolean" &&
    typeof value.brief === "string" &&
    typeof value.display === "object"
  );
}

export function displayText(display: DisplayBlock): string {
  switch (display.kind) {
    case "text":
      return display.text;
    case "markdown":
      return display.markdown;
    case "json":
      return JSON.stringify(display.data);
  }
}

function briefOf(text: string): string {
  const line = text.split("\n", 1)[0]!;
  return line.length <= TOOL_BRIEF_LENGTH ? line : `${line.slice(0, TOOL_BRIEF_LENGTH - 1)}…`;
}

function textOf(content: readonly { type: string }[]): string {
  return content
    .flatMap((block) => ("text" in block && typeof block.text === "string" ? [block.text] : []))
    .join("\n");
}
