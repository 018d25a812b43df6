/** Selects the events for the stream of a run, and converts an entry of the tape back into its event. */
import type { Entry, JsonObject } from "@backplane/contract";
import type { WatchedEvent } from "@backplane/ports";
import type { SseItem } from "../sse/event-streams.ts";

const HARNESS_ENDED = "x.harness.ended";

/** The stream omits all other kinds, such as the requests between the kernel and its plugins. */
const STREAMED_KINDS: ReadonlySet<string> = new Set([
  "user.message.received",
  "user.interrupt",
  "assistant.message.delta",
  "llm.call.delta",
  "assistant.message.done",
  "tool.call.request",
  "tool.call.start",
  "x.loop.tool.progress",
  "tool.call.result",
  "tool.error",
  "approval.request",
  "approval.cancelled",
  "llm.call.error",
  "kernel.error",
  "session.compaction.started",
  "session.compaction.completed",
  "session.compaction.failed",
  "x.harness.started",
  "x.harness.event",
  HARNESS_ENDED,
]);

type EntryContent = Pick<Entry, "kind" | "payload">;

interface KernelEvent {
  kind: string;
  payload: JsonObject;
}

/** Null if the event is not part of the stream of a run. */
export function itemOfEvent({ event, entry_id, frame }: WatchedEvent): SseItem | null {
  if (event.kind !== "session.replay.entry") {
    if (!STREAMED_KINDS.has(event.kind)) return null;
    return { ...(entry_id === null ? {} : { id: entry_id }), event: event.kind, data: frame };
  }
  const entry = event.payload as { kind: Entry["kind"]; payload: JsonObject; session_id: string };
  return itemFor(entry_id!, entry.session_id, eventOfEntry(entry), {
    id: event.id,
    ts: event.ts,
    source: "kernel",
  });
}

export function itemOfEntry(session_id: string, entry: Entry): SseItem | null {
  const { event_id, source } = entry.meta;
  return itemFor(entry.id, session_id, eventOfEntry(entry), {
    id: typeof event_id === "string" ? event_id : `entry_${entry.id}`,
    ts: Date.parse(entry.date) / 1000,
    source: typeof source === "string" ? source : "kernel",
  });
}

function itemFor(
  entry_id: number,
  session_id: string,
  kernel_event: KernelEvent | null,
  { id, ts, source }: { id: string; ts: number; source: string },
): SseItem | null {
  if (kernel_event === null || !STREAMED_KINDS.has(kernel_event.kind)) return null;
  const event = { id, kind: kernel_event.kind, session_id, ts, source, payload: kernel_event.payload };
  return {
    id: entry_id,
    event: kernel_event.kind,
    data: JSON.stringify({ op: "event", session_id, event, entry_id }),
  };
}

/** The inverse of how the kernel persists events as entries. */
function eventOfEntry({ kind, payload }: EntryContent): KernelEvent | null {
  switch (kind) {
    case "message": {
      const { role, content, ...rest } = payload;
      if (role === "user")
        return { kind: "user.message.received", payload: { text: content ?? "", ...rest } };
      if (role !== "assistant") return null;
      return { kind: "assistant.message.done", payload: { content: content ?? "", tool_calls: [], ...rest } };
    }
    case "tool_call":
      return { kind: "tool.call.request", payload };
    case "tool_result": {
      const { tool_call_id, ...rest } = payload;
      return { kind: "tool.call.result", payload: { id: tool_call_id ?? "", ...rest } };
    }
    case "event": {
      const { name, data } = payload;
      return typeof name === "string" ? { kind: name, payload: (data ?? {}) as JsonObject } : null;
    }
    case "anchor":
      return null;
  }
}

/** Whether the run could have ended with this event, so that its row has to be read. */
export function mayEndRun(watched: WatchedEvent, run_id: string): boolean {
  const { event } = watched;
  if (event.kind === "session.replay.done" || isHarnessEnd(watched, run_id)) return true;
  if (event.kind === "session.replay.entry") {
    const { kind, payload } = event.payload as { kind: string; payload: JsonObject };
    return kind === "message" && payload.role === "assistant";
  }
  const { run_id: ended_run_id, status } = event.payload;
  return event.kind === "assistant.message.done" && ended_run_id === run_id && status !== "running";
}

/** Whether the event, live or replayed, is the last one of a harness's run. */
export function isHarnessEnd({ event }: WatchedEvent, run_id: string): boolean {
  if (event.kind === "session.replay.entry") return isHarnessEndEntry(event.payload as EntryContent, run_id);
  return event.kind === HARNESS_ENDED && event.payload.run_id === run_id;
}

export function isHarnessEndEntry(entry: EntryContent, run_id: string): boolean {
  const event = eventOfEntry(entry);
  return event?.kind === HARNESS_ENDED && event.payload.run_id === run_id;
}
