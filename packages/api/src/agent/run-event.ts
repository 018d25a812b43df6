/** What a run's stream shows, and how an entry of the tape looks as the event that it once was. */
import type { Entry, JsonObject } from "@backplane/contract";
import type { Watched } from "@backplane/kernel";
import type { SseItem } from "../event-streams.ts";

/** The others are the kernel talking to its plugins. */
const SHOWN: ReadonlySet<string> = new Set([
  "user.message.received",
  "user.interrupt",
  "assistant.message.delta",
  "assistant.message.done",
  "tool.call.request",
  "tool.call.start",
  "tool.call.result",
  "tool.error",
  "approval.request",
  "approval.cancelled",
  "llm.call.error",
  "kernel.error",
  "session.compaction.started",
  "session.compaction.completed",
  "session.compaction.failed",
]);

interface Told {
  kind: string;
  payload: JsonObject;
}

/** Null: not for a run's stream. */
export function itemOf({ event, entry_id, frame }: Watched): SseItem | null {
  if (event.kind !== "session.replay.entry") {
    if (!SHOWN.has(event.kind)) return null;
    return { ...(entry_id === null ? {} : { id: entry_id }), event: event.kind, data: frame };
  }
  const entry = event.payload as { kind: Entry["kind"]; payload: JsonObject; session_id: string };
  return spell(entry_id!, entry.session_id, toldBy(entry), { id: event.id, ts: event.ts, source: "kernel" });
}

export function itemOfEntry(session_id: string, entry: Entry): SseItem | null {
  const { event_id, source } = entry.meta;
  return spell(entry.id, session_id, toldBy(entry), {
    id: typeof event_id === "string" ? event_id : `entry_${entry.id}`,
    ts: Date.parse(entry.date) / 1000,
    source: typeof source === "string" ? source : "kernel",
  });
}

function spell(
  entry_id: number,
  session_id: string,
  told: Told | null,
  { id, ts, source }: { id: string; ts: number; source: string },
): SseItem | null {
  if (told === null || !SHOWN.has(told.kind)) return null;
  const event = { id, kind: told.kind, session_id, ts, source, payload: told.payload };
  return {
    id: entry_id,
    event: told.kind,
    data: JSON.stringify({ op: "event", session_id, event, entry_id }),
  };
}

/** The persistence table read backwards. */
function toldBy({ kind, payload }: Pick<Entry, "kind" | "payload">): Told | null {
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

/** True where the run may have ended with this: worth a look at its row. */
export function mayEnd({ event }: Watched, run_id: string): boolean {
  if (event.kind === "session.replay.done") return true;
  if (event.kind === "session.replay.entry") {
    const { kind, payload } = event.payload as { kind: string; payload: JsonObject };
    return kind === "message" && payload.role === "assistant";
  }
  const { run_id: of, status } = event.payload;
  return event.kind === "assistant.message.done" && of === run_id && status !== "running";
}
