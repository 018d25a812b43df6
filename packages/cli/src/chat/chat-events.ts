/**
 * Converts tape entries and live events of a session to chat events. A replayed entry and the live event for it become
 * the same chat event. Null means that the chat does not show it.
 */
import { type Entry, isObject } from "@backplane/contract";

export type ChatEvent =
  | { kind: "user_message"; text: string; attachments: number }
  /** The answer of a turn; `run_id` and `status` only in a live event. */
  | { kind: "answer"; text: string; run_id?: string; status?: string }
  /** The complete text of one model call; `calls` is the number of tool calls that follow. */
  | { kind: "model_text"; text: string; calls: number }
  /** New text of an answer, or with `replaces_all` the whole answer so far. */
  | { kind: "delta"; text: string; iteration: number; replaces_all: boolean }
  | { kind: "tool_call"; id: string; name: string; args: unknown }
  | { kind: "tool_result"; id: string; ok: boolean; brief: string }
  | { kind: "tool_error"; id: string; why: string; brief: string }
  | { kind: "session_start" }
  | { kind: "handoff"; name: string; summary: string }
  | { kind: "compaction"; summary: string; before: number | null; after: number | null }
  | { kind: "approval_request"; approval_id: string }
  | { kind: "approval_cancelled"; approval_id: string; reason: string }
  | { kind: "interrupt" }
  | { kind: "error"; message: string }
  | { kind: "caught_up" };

type Payload = Readonly<Record<string, unknown>>;

export function readEntry(entry: Pick<Entry, "kind" | "payload">): ChatEvent | null {
  const { payload } = entry;
  switch (entry.kind) {
    case "message":
      return payload.role === "user"
        ? { kind: "user_message", text: toText(payload.content), attachments: toCount(payload.attachments) }
        : { kind: "answer", text: toText(payload.content) };
    case "tool_call":
      return readEvent({ kind: "tool.call.request", payload });
    case "tool_result":
      return readEvent({ kind: "tool.call.result", payload: { ...payload, id: payload.tool_call_id } });
    case "anchor":
      return readAnchor(payload);
    case "event":
      return readEvent({ kind: toText(payload.name), payload: toPayload(payload.data) });
  }
}

export function readEvent({ kind, payload }: { kind: string; payload: Payload }): ChatEvent | null {
  switch (kind) {
    case "session.replay.entry":
      return readEntry(payload as unknown as Entry);
    case "session.replay.done":
      return { kind: "caught_up" };
    case "user.message.received":
      return { kind: "user_message", text: toText(payload.text), attachments: toCount(payload.attachments) };
    case "assistant.message.delta":
      return {
        kind: "delta",
        text: toText(payload.content),
        iteration: typeof payload.iteration === "number" ? payload.iteration : 0,
        replaces_all: payload.catch_up === true,
      };
    case "llm.call.response":
      return { kind: "model_text", text: toText(payload.text), calls: toCount(payload.tool_calls) };
    case "assistant.message.done":
      return {
        kind: "answer",
        text: toText(payload.content),
        ...(typeof payload.run_id === "string" ? { run_id: payload.run_id } : {}),
        ...(typeof payload.status === "string" ? { status: payload.status } : {}),
      };
    case "tool.call.request":
      return { kind: "tool_call", id: toText(payload.id), name: toText(payload.name), args: payload.args };
    case "tool.call.result":
      return {
        kind: "tool_result",
        id: toText(payload.id),
        ok: payload.ok === true,
        brief: briefOf(payload),
      };
    case "tool.error":
      return {
        kind: "tool_error",
        id: toText(payload.id),
        why: toText(payload.kind),
        brief: toText(payload.brief),
      };
    case "approval.request":
      return { kind: "approval_request", approval_id: toText(payload.id) };
    case "approval.cancelled":
      return { kind: "approval_cancelled", approval_id: toText(payload.id), reason: toText(payload.reason) };
    case "user.interrupt":
      return { kind: "interrupt" };
    case "kernel.error":
      return { kind: "error", message: toText(payload.message) };
    default:
      return null;
  }
}

function readAnchor({ state, name }: Payload): ChatEvent {
  const { kind, summary, tokens_before, tokens_after } = toPayload(state);
  if (kind !== "compaction" && name !== "session/compaction")
    return name === "session/start"
      ? { kind: "session_start" }
      : { kind: "handoff", name: toText(name), summary: toText(summary) };
  const toNumber = (value: unknown) => (typeof value === "number" ? value : null);
  return {
    kind: "compaction",
    summary: toText(summary),
    before: toNumber(tokens_before),
    after: toNumber(tokens_after),
  };
}

function briefOf({ envelope, error, value }: Payload): string {
  const { brief } = toPayload(envelope);
  if (typeof brief === "string" && brief !== "") return brief;
  if (typeof error === "string") return error;
  return value === undefined ? "" : JSON.stringify(value);
}

function toPayload(value: unknown): Payload {
  return isObject(value) ? value : {};
}

function toText(value: unknown): string {
  return typeof value === "string" ? value : "";
}

function toCount(value: unknown): number {
  return Array.isArray(value) ? value.length : 0;
}
