import type { Entry, Json } from "@backplane/contract";

export interface ContextMessage {
  role: string;
  content: Json;
}

/**
 * What the model is shown of entries that begin at an anchor: the summary of a compaction as a system message,
 * then the messages (tape.compaction). Whatever stands before the last anchor is left out.
 */
export function contextOf(entries: readonly Entry[]): ContextMessage[] {
  const start = entries.findLastIndex((entry) => entry.kind === "anchor");
  const messages: ContextMessage[] = [];
  const summary = start < 0 ? null : summaryOf(entries[start]!);
  if (summary !== null) messages.push({ role: "system", content: summary });
  for (const entry of entries.slice(start + 1)) {
    const { role, content } = entry.payload;
    if (entry.kind === "message" && typeof role === "string") messages.push({ role, content: content ?? "" });
  }
  return messages;
}

/** The summary that a compaction's anchor carries; null for every other entry. */
export function summaryOf(entry: Entry): string | null {
  const state = entry.kind === "anchor" ? entry.payload.state : undefined;
  if (typeof state !== "object" || state === null || Array.isArray(state)) return null;
  return state.kind === "compaction" && typeof state.summary === "string" ? state.summary : null;
}
