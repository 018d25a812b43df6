/**
 * What a session's tape and its live events say to a person. The same thing comes in two spellings, as an entry in a
 * replay and as an event when it happens; both are read into one here. What only programs care for is null.
 */
import { type Entry, isObject } from "@backplane/contract";

export type Moment =
  | { kind: "said"; text: string; attachments: number }
  /** The turn's answer; `run_id` and `status` only where it was heard live. */
  | { kind: "answered"; text: string; run_id?: string; status?: string }
  /** One model call is complete; before tools its text is on no other line. */
  | { kind: "model"; text: string; calls: number }
  /** A piece of an answer; with `whole` it is all of the answer so far. */
  | { kind: "piece"; text: string; iteration: number; whole: boolean }
  | { kind: "called"; id: string; name: string; args: unknown }
  | { kind: "result"; id: string; ok: boolean; brief: string }
  | { kind: "refused"; id: string; why: string; brief: string }
  | { kind: "began" }
  | { kind: "compacted"; summary: string; before: number | null; after: number | null }
  | { kind: "asked"; approval_id: string }
  | { kind: "unasked"; approval_id: string; reason: string }
  | { kind: "interrupted" }
  | { kind: "trouble"; message: string }
  | { kind: "caught_up" };

type Payload = Readonly<Record<string, unknown>>;

export function readEntry(entry: Pick<Entry, "kind" | "payload">): Moment | null {
  const { payload } = entry;
  switch (entry.kind) {
    case "message":
      return payload.role === "user"
        ? { kind: "said", text: text(payload.content), attachments: count(payload.attachments) }
        : { kind: "answered", text: text(payload.content) };
    case "tool_call":
      return readEvent({ kind: "tool.call.request", payload });
    case "tool_result":
      return readEvent({ kind: "tool.call.result", payload: { ...payload, id: payload.tool_call_id } });
    case "anchor":
      return readAnchor(payload);
    case "event":
      return readEvent({ kind: text(payload.name), payload: object(payload.data) });
  }
}

export function readEvent({ kind, payload }: { kind: string; payload: Payload }): Moment | null {
  switch (kind) {
    case "session.replay.entry":
      return readEntry(payload as unknown as Entry);
    case "session.replay.done":
      return { kind: "caught_up" };
    case "user.message.received":
      return { kind: "said", text: text(payload.text), attachments: count(payload.attachments) };
    case "assistant.message.delta":
      return {
        kind: "piece",
        text: text(payload.content),
        iteration: typeof payload.iteration === "number" ? payload.iteration : 0,
        whole: payload.catch_up === true,
      };
    case "llm.call.response":
      return { kind: "model", text: text(payload.text), calls: count(payload.tool_calls) };
    case "assistant.message.done":
      return {
        kind: "answered",
        text: text(payload.content),
        ...(typeof payload.run_id === "string" ? { run_id: payload.run_id } : {}),
        ...(typeof payload.status === "string" ? { status: payload.status } : {}),
      };
    case "tool.call.request":
      return { kind: "called", id: text(payload.id), name: text(payload.name), args: payload.args };
    case "tool.call.result":
      return { kind: "result", id: text(payload.id), ok: payload.ok === true, brief: briefOf(payload) };
    case "tool.error":
      return {
        kind: "refused",
        id: text(payload.id),
        why: text(payload.kind),
        brief: text(payload.brief),
      };
    case "approval.request":
      return { kind: "asked", approval_id: text(payload.id) };
    case "approval.cancelled":
      return { kind: "unasked", approval_id: text(payload.id), reason: text(payload.reason) };
    case "user.interrupt":
      return { kind: "interrupted" };
    case "kernel.error":
      return { kind: "trouble", message: text(payload.message) };
    default:
      return null;
  }
}

function readAnchor({ state, name }: Payload): Moment {
  const { kind, summary, tokens_before, tokens_after } = object(state);
  if (kind !== "compaction" && name !== "session/compaction") return { kind: "began" };
  const number = (value: unknown) => (typeof value === "number" ? value : null);
  return {
    kind: "compacted",
    summary: text(summary),
    before: number(tokens_before),
    after: number(tokens_after),
  };
}

function briefOf({ envelope, error, value }: Payload): string {
  const { brief } = object(envelope);
  if (typeof brief === "string" && brief !== "") return brief;
  if (typeof error === "string") return error;
  return value === undefined ? "" : JSON.stringify(value);
}

function object(value: unknown): Payload {
  return isObject(value) ? value : {};
}

function text(value: unknown): string {
  return typeof value === "string" ? value : "";
}

function count(value: unknown): number {
  return Array.isArray(value) ? value.length : 0;
}
