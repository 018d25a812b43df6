/** Finds the pinned entries of a session, including those that an earlier compaction dropped. */

import type { Entry } from "@backplane/contract";
import type { SessionKey, SessionStore } from "@backplane/ports";
import type { HydratedSession, Sessions } from "../sessions/sessions.ts";
import { originalId } from "./retained.ts";

interface PinnedDeps {
  store: { sessions: Pick<SessionStore, "listPins"> };
  sessions: Pick<Sessions, "readEntries">;
}

/**
 * Returns the ids of the session's pins, and the source entries together with the pinned entries that an earlier
 * compaction had dropped before they were pinned. These entries return to the context with the next compaction.
 */
export async function restorePinned(
  { store, sessions }: PinnedDeps,
  key: SessionKey,
  { session, entries }: HydratedSession,
): Promise<{ pins: ReadonlySet<number>; entries: readonly Entry[] }> {
  const pinned = await store.sessions.listPins(key);
  const pins = new Set(pinned.map(({ entry_id }) => entry_id));
  const current = new Set(entries.map(originalId));
  const missing = [...pins].filter((id) => !current.has(id));
  const read_entries = await Promise.all(
    missing.map((id) => findChainEntry(sessions, key, session.head_chain_id, id)),
  );
  const restored = read_entries.filter((entry) => entry !== null);
  if (restored.length === 0) return { pins, entries };
  const anchors = entries[0]?.kind === "anchor" ? 1 : 0;
  return { pins, entries: [...entries.slice(0, anchors), ...restored, ...entries.slice(anchors)] };
}

export async function findChainEntry(
  sessions: Pick<Sessions, "readEntries">,
  { scope }: SessionKey,
  chain_id: string,
  entry_id: number,
): Promise<Entry | null> {
  const [entry] = await sessions.readEntries(scope, chain_id, entry_id - 1, 1);
  return entry?.id === entry_id ? entry : null;
}
