/**
 * Which bus events reach a session's clients, and how (bus.scope). What the tape keeps comes from the tape, after it
 * is on disk and with its entry id; everything else comes straight from the bus.
 */

import { type BusEvent, KERNEL_SESSION } from "@backplane/contract";
import type { Scope } from "@backplane/ports";

const ESSENTIAL: ReadonlySet<string> = new Set([
  "user.message.received",
  "assistant.message.done",
  "tool.call.request",
  "tool.call.result",
  "tool.error",
]);

/** Says what `entryFor` would, without making the entry; a test holds the two together. */
export function isTaped({ kind, session_id, payload }: BusEvent): boolean {
  if (session_id === KERNEL_SESSION || kind.startsWith("session.")) return false;
  if (kind === "assistant.message.delta" || kind === "llm.call.delta") return false;
  return ESSENTIAL.has(kind) || (payload.persist !== false && payload.__persist__ !== false);
}

/** The conversation that an event of `kernel` is about, or null. */
export function subjectOf({ payload }: BusEvent): string | null {
  const { target_session_id, session_id } = payload;
  if (typeof target_session_id === "string") return target_session_id;
  return typeof session_id === "string" ? session_id : null;
}

/** About the host or the org rather than a conversation. */
export function isAnnounced(kind: string): boolean {
  return kind.startsWith("plugin.") || kind.startsWith("kernel.");
}

/** An announcement of the whole org is for its projects too; one of a project is for that project alone. */
export function hears(viewer: Scope, event: Scope): boolean {
  if (viewer.org_id !== event.org_id) return false;
  return event.project_id === null || event.project_id === viewer.project_id;
}

/** After these the text so far is no longer an unfinished answer. */
export const ANSWER_ENDS: ReadonlySet<string> = new Set([
  "assistant.message.done",
  "llm.call.request",
  "llm.call.error",
  "user.interrupt",
]);

/** These tell of entries that were written with a new chain, past the tape's feed. */
export const TAPE_MOVES: ReadonlySet<string> = new Set([
  "session.reset",
  "session.handoff",
  "session.compaction.completed",
]);
