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
  SessionKey,
  SessionStore,
  TapeWrite,
  Timer,
} from "../ports/index.ts";
import { entryFor, type TapedEvent } from "./entry-for.ts";
import { sessionName } from "./session-name.ts";

export interface PersisterDeps {
  store: { sessions: Pick<SessionStore, "append"> };
  clock: Pick<Clock, "after">;
  log: Pick<Logger, "warn">;
  /** Told after a best-effort entry was lost; the bus makes a plugin.error of it. */
  lost(loss: { source: typeof PERSISTER_SOURCE; key: SessionKey; entries: number; error: string }): void;
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
  /** Resolves when everything so far, of this session or of all, is on disk or lost. */
  drain(key?: SessionKey): Promise<void>;
}

/** Not `kernel`: the bus's guard against recursion lets it through. */
const PERSISTER_SOURCE = "kernel-session-persister";

const COMPANY_MS = 25;
const MAX_WAITING = 1_000;

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
}

export function createPersister(deps: PersisterDeps): Persister {
  const lanes = new IdTable<Lane>();
  const listeners = new Set<WrittenListener>();

  const laneOf = (key: SessionKey): Lane => {
    const name = sessionName(key);
    let lane = lanes.get(name);
    if (lane === undefined) {
      lane = { name, key, waiting: [], best_effort: 0, timer: null, writing: null };
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

  const writeBatch = async (lane: Lane, batch: Waiting[]): Promise<void> => {
    const { key } = lane;
    const rider = batch.at(-1)!.via === null ? null : batch.pop()!;
    const before = batch.flatMap(({ items }) => items);
    const all = rider === null ? before : [...before, ...rider.items];
    const entries = all.map(({ entry }) => entry);
    try {
      const ids =
        rider === null ? await deps.store.sessions.append(key, entries) : await rider.via!({ key, entries });
      if (ids === null) {
        putBack(lane, batch);
        rider?.done?.resolve(null);
        return;
      }
      tell(key, all, ids.first_id);
      for (const { done } of batch) done?.resolve(ids);
      const own = rider?.items.length ?? 0;
      rider?.done?.resolve({ ...ids, first_id: ids.last_id - own + 1 });
    } catch (error) {
      if (rider !== null && batch.length > 0) {
        // Whatever the rider was refused for, the others have not asked for it.
        putBack(lane, batch);
        rider.done?.reject(error);
        return;
      }
      const lost = batch.filter(({ done }) => done === null).length;
      // Events on the session of something that keeps no tape are no loss.
      if (lost > 0 && codeOf(error) !== "session.not_found") report(lane, lost, error);
      for (const { done } of batch) done?.reject(error);
      rider?.done?.reject(error);
    }
  };

  /** Until nothing waits; then the lane is gone, so idle sessions cost nothing. */
  const pump = async (lane: Lane): Promise<void> => {
    while (lane.waiting.length > 0) {
      const rider = lane.waiting.findIndex(({ via }) => via !== null);
      const batch = lane.waiting.splice(0, rider < 0 ? lane.waiting.length : rider + 1);
      for (const { done } of batch) if (done === null) lane.best_effort--;
      lane.timer?.stop();
      lane.timer = null;
      await writeBatch(lane, batch);
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
