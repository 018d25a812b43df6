/**
 * Converts a settled invocation into the event that ends its tool call: tool.call.result with an envelope if the tool
 * ran, tool.error if the call was refused before it ran (ktool.dispatch).
 */
import {
  type BusPayload,
  type ContentBlock,
  contentText,
  type DisplayBlock,
  type Invocation,
  isObject,
  type Json,
  type JsonObject,
  refusalKind,
  type TerminalStatus,
  TOOL_BRIEF_LENGTH,
  type ToolFailure,
  toolFailureOf,
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

/** The last progress status of a call and the tail of its incremental output, stored with its result. */
export interface CallProgress {
  status?: string;
  output?: string;
}

export function toToolOutcome(ids: CallIds, row: SettledCall, progress?: CallProgress): ToolOutcomeEvent {
  const { error, tool_result } = row;
  const refusal = error === null ? null : refusalKind(error.code);
  if (refusal !== null)
    return toolErrorOutcome(ids, refusal, error!.message, buildErrorDetail(refusal, error!.details));
  const { content = [], structured_output, status, yield_to_user } = tool_result ?? {};
  const failure = failureOf(row);
  const payload: BusPayload<"tool.call.result"> = { ...ids, ok: failure === null };
  // The gateway checks the envelope of a registered tool. A bound export's output is a value, whatever its fields are.
  if (error === null && isRegisteredTool(row.binding_id) && isEnvelope(structured_output)) {
    const { ok: _ok, ...envelope } = structured_output;
    payload.envelope = envelope;
  } else {
    const display = displayOf(row);
    const text = displayText(display);
    payload.envelope = { brief: briefOf(text), display, ...(failure === null ? {} : { kind: failure.kind }) };
    if (structured_output !== undefined) payload.value = structured_output;
    if (failure !== null) payload.error = text;
    if (failure !== null && tool_result?.failure !== undefined) payload.failure = failure;
  }
  if (!isRepeated(content, payload.envelope.display as DisplayBlock)) payload.content = content;
  if (status !== undefined) payload.status = status;
  if (yield_to_user === true) payload.yield_to_user = true;
  if (progress !== undefined) payload.progress = { ...progress };
  return { kind: "tool.call.result", payload };
}

function failureOf({ status, error, tool_result }: SettledCall): ToolFailure | null {
  if (tool_result?.failure !== undefined) return tool_result.failure;
  const result = { is_error: tool_result?.is_error === true };
  return toolFailureOf({ status: status as TerminalStatus, result, error, stderr_tail: null });
}

function displayOf({ error, tool_result }: SettledCall): DisplayBlock {
  if (error !== null) return { kind: "text", text: error.message };
  const { content = [], structured_output } = tool_result ?? {};
  if (content.length === 0 && structured_output !== undefined)
    return { kind: "json", data: structured_output };
  return { kind: "text", text: contentText(content) };
}

/** Most results are a single text block, which the display already contains, so the tape stores it only once. */
function isRepeated(content: readonly ContentBlock[], display: DisplayBlock): boolean {
  const [block, ...more] = content;
  if (block === undefined) return true;
  if (more.length > 0 || block.type !== "text" || Object.keys(block).length !== 2) return false;
  return block.text === displayText(display);
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

/** The invalid fields are called `errors` in events and `issues` in responses. */
function buildErrorDetail(kind: BusPayload<"tool.error">["kind"], details: JsonObject | undefined) {
  return kind === "validation" && details?.issues !== undefined
    ? { ...details, errors: details.issues }
    : details;
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
