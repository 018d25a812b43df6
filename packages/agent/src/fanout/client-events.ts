/**
 * Selects the bus events that reach a session's clients (bus.scope). Events that the tape keeps are sent from
 * the tape, after they are on disk and with their entry id. All other events are sent directly from the bus.
 */

import { type BusEvent, KERNEL_SESSION } from "@backplane/contract";
import type { Scope } from "@backplane/ports";

/** The tape keeps these events even if their payload sets `persist` to false. */
const ESSENTIAL: ReadonlySet<string> = new Set([
  "user.message.received",
  "assistant.message.done",
  "tool.call.request",
  "tool.call.result",
  "tool.error",
]);

/**
 * Returns whether `toTapedEntry` would make an entry, without making it. A test keeps the two functions consistent.
 */
export function isTaped({ kind, session_id, payload }: BusEvent): boolean {
  if (session_id === KERNEL_SESSION || kind.startsWith("session.")) return false;
  if (kind === "assistant.message.delta" || kind === "llm.call.delta") return false;
  return ESSENTIAL.has(kind) || (payload.persist !== false && payload.__persist__ !== false);
}

/** Returns the session that an event of the `kernel` session is about, or null. */
export function subjectOf({ payload }: BusEvent): string | null {
  const { target_session_id, session_id } = payload;
  if (typeof target_session_id === "string") return target_session_id;
  return typeof session_id === "string" ? session_id : null;
}

/**
 * Returns whether an event is an answer that the kernel may still reject. The kernel publishes only recorded answers;
 * an accepted answer of a plugin arrives through `sendAnswer`.
 */
export function isUncheckedAnswer({ kind, source }: BusEvent): boolean {
  return kind === "approval.response" && source !== "kernel" && !source.startsWith("kernel-");
}

/** Returns whether an event is about the host or the org rather than about one session. */
export function isAnnouncement(kind: string): boolean {
  return kind.startsWith("plugin.") || kind.startsWith("kernel.");
}

/**
 * An announcement for a whole org also reaches its projects. An announcement for a project reaches that
 * project only.
 */
export function isVisibleTo(viewer: Scope, event: Scope): boolean {
  if (viewer.org_id !== event.org_id) return false;
  return event.project_id === null || event.project_id === viewer.project_id;
}

/** After one of these events the text so far is no longer an unfinished answer. */
export const ANSWER_ENDS: ReadonlySet<string> = new Set([
  "assistant.message.done",
  "llm.call.request",
  "llm.call.error",
  "user.interrupt",
]);
