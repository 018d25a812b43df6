/**
 * Writes to the tapes of sessions, in the order in which things came. An essential entry is acknowledged when it is
 * on disk; others wait a moment for company and are lost rather than hold anyone up, which is told once per loss
 * (tape.durable). One write per session is under way at a time, so ids follow order. An entry can ride in another
 * write's transaction (a run's, an invocation's), and takes along what waits before it. Whoever listens hears of
 * every entry after it is on disk, with its id: that is what watchers are shown.
 */

import { type BusEvent, codeOf, type Entry, IdTable } from "@backplane/contract";
import type {
  Appended,
  Clock,
  Logger,
  NewEntry,
  RunHold,
  SessionKey,
  SessionStore,
  TapeWrite,
  Timer,
} from "@backplane/ports";
import { entryFor, type TapedEvent } from "./entry-for.ts";
import { sessionName } from "./session-name.ts";

export interface PersisterDeps {
  store: { sessions: Pick<SessionStore, "appendTape"> };
  clock: Pick<Clock, "after" | "monotonic">;
  log: Pick<Logger, "warn">;
  /** Told after a best-effort entry was lost; the bus makes a plugin.error of it. */
  lost(loss: { source: typeof PERSISTER_SOURCE; key: SessionKey; entries: number; error: string }): void;
  /** Told when a write was refused because another gateway has the turn. */
  takenOver(hold: RunHold): void;
}

/** An entry and, where it is one, the bus event that it is the record of. */
export interface TapeItem {
  entry: NewEntry;
  event: TapedEvent | null;
}

export interface WrittenItem {
  entry: Entry;
  event: BusEvent | null;
}

export type WrittenListener = (key: SessionKey, items: readonly WrittenItem[]) => void;

export interface TapeFeed {
  /** After each commit, in the order of a session's ids. */
  onWritten(listener: WrittenListener): () => void;
}

export interface Persister extends TapeFeed {
  /** Resolves when an essential entry is on disk, and rejects when it is not; at once for all others. */
  write(key: SessionKey, event: TapedEvent): Promise<void>;
  append(key: SessionKey, items: readonly TapeItem[]): Promise<Appended>;
  /**
   * `write` puts the entries on disk together with something of its own and answers their ids, or null when it
   * wrote nothing after all. What waited before them goes along.
   */
  ride(
    key: SessionKey,
    items: readonly TapeItem[],
    write: (tape: TapeWrite) => Promise<Appended | null>,
  ): Promise<Appended | null>;
  /** Entries that came onto the tape by another way (a compaction's, a reset's). */
  announce(key: SessionKey, entries: readonly Entry[]): void;
  /**
   * While a turn runs here, whatever goes onto the tape of its session carries its hold. Once another gateway has the
   * turn, late entries of it are dropped until the next turn of the session begins here.
   */
  hold(key: SessionKey, hold: RunHold): void;
  release(key: SessionKey, hold: RunHold, how: "ended" | "lost"): void;
  /** Resolves when everything so far, of this session or of all, is on disk, lost, or waits for the store. */
  drain(key?: SessionKey): Promise<void>;
}

/** Not `kernel`: the bus's guard against recursion lets it through. */
const PERSISTER_SOURCE = "kernel-session-persister";

const COMPANY_MS = 25;
const MAX_WAITING = 1_000;
/** How long entries are kept for a store that is away. */
const KEEP_MS = 600_000;
const FIRST_PAUSE_MS = 50;
const LONGEST_PAUSE_MS = 1_000;
const MAX_LOST_HOLDS = 1_000;

interface Waiting {
  items: readonly TapeItem[];
  /** null: best effort. */
  done: { resolve(ids: Appended | null): void; reject(error: unknown): void } | null;
  via: ((tape: TapeWrite) => Promise<Appended | null>) | null;
}

interface Lane {
  name: string;
  key: SessionKey;
  waiting: Waiting[];
  best_effort: number;
  timer: Timer | null;
  writing: Promise<void> | null;
  /** Since when the store is away, and how long the next pause is. */
  away: { since: number; pause: number } | null;
}

interface Held {
  hold: RunHold;
  lost: boolean;
}

export function createPersister(deps: PersisterDeps): Persister {
  const lanes = new IdTable<Lane>();
  const listeners = new Set<WrittenListener>();
  const holds = new Map<string, Held>();

  const laneOf = (key: SessionKey): Lane => {
    const name = sessionName(key);
    let lane = lanes.get(name);
    if (lane === undefined) {
      lane = { name, key, waiting: [], best_effort: 0, timer: null, writing: null, away: null };
      lanes.add(name, lane);
    }
    return lane;
  };

  const report = ({ key }: Lane, entries: number, error: unknown): void => {
    const { session_id } = key;
    deps.log.warn({ err: error, session_id, entries }, "entries of a session were lost");
    const message = error instanceof Error ? error.message : String(error);
    deps.lost({ source: PERSISTER_SOURCE, key, entries, error: message });
  };

  const tell = (key: SessionKey, batch: readonly TapeItem[], first_id: number): void => {
    if (listeners.size === 0) return;
    const items = batch.map(({ entry, event }, n) => ({
      entry: { id: first_id + n, ...entry },
      event: event as BusEvent | null,
    }));
    for (const listener of listeners) listener(key, items);
  };

  /** The other write did not happen; what would have gone along has its own turn next. */
  const putBack = (lane: Lane, batch: readonly Waiting[]): void => {
    lane.waiting.unshift(...batch);
    for (const { done } of batch) if (done === null) lane.best_effort++;
  };

  /** Entries that nobody waits for are kept for a while; whoever waits is told, and decides. */
  const keep = (lane: Lane, batch: readonly Waiting[], error: unknown): void => {
    const now = deps.clock.monotonic();
    lane.away ??= { since: now, pause: FIRST_PAUSE_MS };
    const kept = batch.filter(({ done }) => done === null);
    if (now - lane.away.since < KEEP_MS) putBack(lane, kept);
    else if (kept.length > 0) report(lane, kept.length, error);
    for (const { done } of batch) done?.reject(error);
  };

  const refused = (lane: Lane, batch: readonly Waiting[], rider: Waiting | null, error: unknown): void => {
    if (codeOf(error) === "store.unavailable") {
      keep(lane, batch, error);
      rider?.done?.reject(error);
      return;
    }
    const held = holds.get(lane.name);
    const taken_over = codeOf(error) === "run.taken_over" && held !== undefined;
    if (taken_over) deps.takenOver(held.hold);
    if (rider !== null && batch.length > 0) {
      // Whatever the rider was refused for, the others have not asked for it.
      putBack(lane, batch);
      rider.done?.reject(error);
      return;
    }
    const lost = batch.filter(({ done }) => done === null).length;
    // Events on the session of something that keeps no tape, or of a turn that goes on elsewhere, are not a loss.
    if (lost > 0 && !taken_over && codeOf(error) !== "session.not_found") report(lane, lost, error);
    for (const { done } of batch) done?.reject(error);
    rider?.done?.reject(error);
  };

  /** False: the store is away. */
  const writeBatch = async (lane: Lane, taken: Waiting[]): Promise<boolean> => {
    const { key } = lane;
    const held = holds.get(lane.name);
    const batch = held?.lost === true ? taken.filter(({ done }) => done !== null) : taken;
    if (batch.length === 0) return true;
    const rider = batch.at(-1)!.via === null ? null : batch.pop()!;
    const before = batch.flatMap(({ items }) => items);
    const all = rider === null ? before : [...before, ...rider.items];
    const entries = all.map(({ entry }) => entry);
    const tape: TapeWrite =
      held === undefined || held.lost ? { key, entries } : { key, entries, hold: held.hold };
    try {
      const ids = rider === null ? await deps.store.sessions.appendTape(tape) : await rider.via!(tape);
      lane.away = null;
      if (ids === null) {
        putBack(lane, batch);
        rider?.done?.resolve(null);
        return true;
      }
      tell(key, all, ids.first_id);
      for (const { done } of batch) done?.resolve(ids);
      const own = rider?.items.length ?? 0;
      rider?.done?.resolve({ ...ids, first_id: ids.last_id - own + 1 });
      return true;
    } catch (error) {
      // The turn ended, or was lost, while this was written: the entries have their turn again without its hold.
      if (codeOf(error) === "run.taken_over" && rider === null && holds.get(lane.name) !== held) {
        putBack(lane, batch);
        return true;
      }
      refused(lane, batch, rider, error);
      return codeOf(error) !== "store.unavailable";
    }
  };

  /** Until nothing waits; then the lane is gone, so idle sessions cost nothing. While the store is away it pauses. */
  const pump = async (lane: Lane): Promise<void> => {
    while (lane.waiting.length > 0) {
      const rider = lane.waiting.findIndex(({ via }) => via !== null);
      const batch = lane.waiting.splice(0, rider < 0 ? lane.waiting.length : rider + 1);
      for (const { done } of batch) if (done === null) lane.best_effort--;
      lane.timer?.stop();
      lane.timer = null;
      if (await writeBatch(lane, batch)) continue;
      if (lane.waiting.some(({ done }) => done !== null)) continue;
      if (lane.waiting.length === 0 || lane.away === null) break;
      lane.timer = deps.clock.after(lane.away.pause, () => start(lane));
      lane.away.pause = Math.min(lane.away.pause * 2, LONGEST_PAUSE_MS);
      lane.writing = null;
      return;
    }
    lane.writing = null;
    lanes.delete(lane.name);
  };

  const start = (lane: Lane): void => {
    lane.writing ??= pump(lane);
  };

  const essential = (
    key: SessionKey,
    items: readonly TapeItem[],
    via: Waiting["via"],
  ): Promise<Appended | null> =>
    new Promise((resolve, reject) => {
      const lane = laneOf(key);
      lane.waiting.push({ items, done: { resolve, reject }, via });
      start(lane);
    });

  return {
    async write(key, event) {
      const taped = entryFor(event);
      if (taped === null) return;
      const items = [{ entry: taped.entry, event }];
      if (taped.essential) {
        await essential(key, items, null);
        return;
      }
      const lane = laneOf(key);
      if (lane.best_effort >= MAX_WAITING) {
        report(lane, 1, new Error("the store is too slow for them"));
        return;
      }
      lane.best_effort++;
      lane.waiting.push({ items, done: null, via: null });
      if (lane.writing === null) lane.timer ??= deps.clock.after(COMPANY_MS, () => start(lane));
    },
    append: async (key, items) => (await essential(key, items, null))!,
    ride: essential,
    hold(key, hold) {
      holds.set(sessionName(key), { hold, lost: false });
    },
    release(key, hold, how) {
      const name = sessionName(key);
      const held = holds.get(name);
      if (held === undefined || held.hold.run_id !== hold.run_id || held.hold.fence !== hold.fence) return;
      if (how === "ended") {
        holds.delete(name);
        return;
      }
      // Late entries of the turn may still come. The oldest of such sessions are forgotten.
      holds.delete(name);
      holds.set(name, { hold, lost: true });
      if (holds.size > MAX_LOST_HOLDS) {
        for (const [old, { lost }] of holds) {
          if (!lost) continue;
          holds.delete(old);
          break;
        }
      }
    },
    onWritten(listener) {
      listeners.add(listener);
      return () => void listeners.delete(listener);
    },
    announce(key, entries) {
      const items = entries.map((entry) => ({ entry, event: null }));
      for (const listener of listeners) listener(key, items);
    },
    async drain(key) {
      const own = key === undefined ? undefined : lanes.get(sessionName(key));
      const all = key === undefined ? lanes.values() : own === undefined ? [] : [own];
      for (const lane of all) start(lane);
      await Promise.all(all.map((lane) => lane.writing ?? Promise.resolve()));
    },
  };
}
