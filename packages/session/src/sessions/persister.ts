/**
 * Writes entries to the tapes of sessions in order of arrival. An essential entry is acknowledged when it is on disk.
 * Best-effort entries are batched for a short time and never block their publisher; a loss is reported (tape.durable).
 * Each session has at most one write in progress, so entry ids follow the order of arrival. `appendInTransaction`
 * writes entries in the transaction of another record, such as a run or an invocation, together with all entries queued
 * before them. Listeners receive each entry with its id after the commit.
 */

import { type BusEvent, codeOf, type Entry, IdTable } from "@backplane/contract";
import type {
  AppendedEntries,
  Clock,
  Logger,
  NewEntry,
  RunHold,
  SessionKey,
  SessionStore,
  TapeWrite,
  Timer,
} from "@backplane/ports";
import { sessionMapKey } from "./session-map-key.ts";
import { type TapedEvent, toTapedEntry } from "./taped-entry.ts";

export interface PersisterDeps {
  store: { sessions: Pick<SessionStore, "appendTape"> };
  clock: Pick<Clock, "after" | "monotonic">;
  log: Pick<Logger, "warn">;
  /** Called after best-effort entries were lost; the kernel publishes a plugin.error event. */
  onLost(loss: { source: typeof PERSISTER_SOURCE; key: SessionKey; entries: number; error: string }): void;
  /** Called when a write was rejected because another gateway has taken over the turn. */
  onTakenOver(hold: RunHold): void;
}

/** An entry and the bus event that it records, if there is one. */
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
  /** Calls the listener after each commit, in the order of the session's entry ids. */
  onWritten(listener: WrittenListener): () => void;
}

export interface Persister extends TapeFeed {
  /**
   * Resolves after the commit of an essential entry, and rejects if the write failed. Resolves immediately for any
   * other event.
   */
  write(key: SessionKey, event: TapedEvent): Promise<void>;
  append(key: SessionKey, items: readonly TapeItem[]): Promise<AppendedEntries>;
  /**
   * `write` stores the entries together with its own record in one transaction. It resolves to their ids, or to
   * null if it wrote nothing. Entries queued before them are part of the same transaction.
   */
  appendInTransaction(
    key: SessionKey,
    items: readonly TapeItem[],
    write: (tape: TapeWrite) => Promise<AppendedEntries | null>,
  ): Promise<AppendedEntries | null>;
  /** Notifies listeners of entries that were not written by the persister (compaction, reset). */
  announce(key: SessionKey, entries: readonly Entry[]): void;
  /**
   * While a turn runs on this node, all writes to its session's tape carry its hold. After another gateway has taken
   * over the turn, late best-effort entries are dropped until the next turn of the session begins on this node.
   */
  hold(key: SessionKey, hold: RunHold): void;
  release(key: SessionKey, hold: RunHold, outcome: "ended" | "lost"): void;
  /**
   * Resolves when all entries so far, of one session or of all, are on disk, lost, or waiting for an unavailable
   * store.
   */
  drain(key?: SessionKey): Promise<void>;
}

/** The name of the failing part in the plugin.error event about a loss (tape.durable). */
const PERSISTER_SOURCE = "kernel-session-persister";

const BATCH_DELAY_MS = 25;
const MAX_BEST_EFFORT = 1_000;
/** How long best-effort entries are retried while the store is unavailable. */
const RETRY_WINDOW_MS = 600_000;
const MIN_RETRY_DELAY_MS = 50;
const MAX_RETRY_DELAY_MS = 1_000;
const MAX_LOST_HOLDS = 1_000;

interface QueuedWrite {
  items: readonly TapeItem[];
  /** Null for best-effort entries. */
  done: { resolve(ids: AppendedEntries | null): void; reject(error: unknown): void } | null;
  /** Writes the entries in a transaction of the caller; null for a plain append. */
  transaction: ((tape: TapeWrite) => Promise<AppendedEntries | null>) | null;
}

interface TapeQueue {
  map_key: string;
  key: SessionKey;
  writes: QueuedWrite[];
  best_effort: number;
  timer: Timer | null;
  draining: Promise<void> | null;
  /** Set while the store is unavailable. */
  outage: { since: number; delay: number } | null;
}

interface TurnHold {
  hold: RunHold;
  lost: boolean;
}

export function createPersister(deps: PersisterDeps): Persister {
  const queues = new IdTable<TapeQueue>();
  const listeners = new Set<WrittenListener>();
  const holds = new Map<string, TurnHold>();

  const getQueue = (key: SessionKey): TapeQueue => {
    const map_key = sessionMapKey(key);
    let queue = queues.get(map_key);
    if (queue === undefined) {
      queue = { map_key, key, writes: [], best_effort: 0, timer: null, draining: null, outage: null };
      queues.set(map_key, queue);
    }
    return queue;
  };

  const reportLoss = ({ key }: TapeQueue, entries: number, error: unknown): void => {
    const { session_id } = key;
    deps.log.warn({ err: error, session_id, entries }, "lost best-effort entries of a session");
    const message = error instanceof Error ? error.message : String(error);
    deps.onLost({ source: PERSISTER_SOURCE, key, entries, error: message });
  };

  const notify = (key: SessionKey, batch: readonly TapeItem[], first_id: number): void => {
    if (listeners.size === 0) return;
    const items = batch.map(({ entry, event }, n) => ({
      entry: { id: first_id + n, ...entry },
      event: event as BusEvent | null,
    }));
    for (const listener of listeners) listener(key, items);
  };

  /** Puts writes back at the front of the queue if the transaction that included them was not committed. */
  const requeue = (queue: TapeQueue, batch: readonly QueuedWrite[]): void => {
    queue.writes.unshift(...batch);
    for (const { done } of batch) if (done === null) queue.best_effort++;
  };

  /** Best-effort entries are retried for a while. A caller that awaits its write gets the error and may retry. */
  const onOutage = (queue: TapeQueue, batch: readonly QueuedWrite[], error: unknown): void => {
    const now = deps.clock.monotonic();
    queue.outage ??= { since: now, delay: MIN_RETRY_DELAY_MS };
    const best_effort = batch.filter(({ done }) => done === null);
    if (now - queue.outage.since < RETRY_WINDOW_MS) requeue(queue, best_effort);
    else if (best_effort.length > 0) reportLoss(queue, best_effort.length, error);
    for (const { done } of batch) done?.reject(error);
  };

  const onFailure = (
    queue: TapeQueue,
    batch: readonly QueuedWrite[],
    transactional: QueuedWrite | null,
    error: unknown,
  ): void => {
    if (codeOf(error) === "store.unavailable") {
      onOutage(queue, batch, error);
      transactional?.done?.reject(error);
      return;
    }
    const turn_hold = holds.get(queue.map_key);
    const was_taken_over = codeOf(error) === "run.taken_over" && turn_hold !== undefined;
    if (was_taken_over) deps.onTakenOver(turn_hold.hold);
    if (transactional !== null && batch.length > 0) {
      // The error concerns the transaction's own record; the entries before it are written without it.
      requeue(queue, batch);
      transactional.done?.reject(error);
      return;
    }
    const lost = batch.filter(({ done }) => done === null).length;
    // Events of a session without a tape, or of a turn that another gateway continues, are not a loss.
    if (lost > 0 && !was_taken_over && codeOf(error) !== "session.not_found") reportLoss(queue, lost, error);
    for (const { done } of batch) done?.reject(error);
    transactional?.done?.reject(error);
  };

  /** Resolves to false if the store is unavailable. */
  const writeBatch = async (queue: TapeQueue, writes: QueuedWrite[]): Promise<boolean> => {
    const { key } = queue;
    const turn_hold = holds.get(queue.map_key);
    const batch = turn_hold?.lost === true ? writes.filter(({ done }) => done !== null) : writes;
    if (batch.length === 0) return true;
    const transactional = batch.at(-1)!.transaction === null ? null : batch.pop()!;
    const earlier = batch.flatMap(({ items }) => items);
    const items = transactional === null ? earlier : [...earlier, ...transactional.items];
    const entries = items.map(({ entry }) => entry);
    const tape: TapeWrite =
      turn_hold === undefined || turn_hold.lost ? { key, entries } : { key, entries, hold: turn_hold.hold };
    try {
      const ids =
        transactional === null
          ? await deps.store.sessions.appendTape(tape)
          : await transactional.transaction!(tape);
      queue.outage = null;
      if (ids === null) {
        requeue(queue, batch);
        transactional?.done?.resolve(null);
        return true;
      }
      notify(key, items, ids.first_id);
      for (const { done } of batch) done?.resolve(ids);
      const count = transactional?.items.length ?? 0;
      transactional?.done?.resolve({ ...ids, first_id: ids.last_id - count + 1 });
      return true;
    } catch (error) {
      // The turn ended or was lost during the write: the entries are written again without its hold.
      if (
        codeOf(error) === "run.taken_over" &&
        transactional === null &&
        holds.get(queue.map_key) !== turn_hold
      ) {
        requeue(queue, batch);
        return true;
      }
      onFailure(queue, batch, transactional, error);
      return codeOf(error) !== "store.unavailable";
    }
  };

  /** Writes until the queue is empty, then removes it: an idle session takes no memory. Pauses during an outage. */
  const drainQueue = async (queue: TapeQueue): Promise<void> => {
    while (queue.writes.length > 0) {
      const end = queue.writes.findIndex(({ transaction }) => transaction !== null);
      const batch = queue.writes.splice(0, end < 0 ? queue.writes.length : end + 1);
      for (const { done } of batch) if (done === null) queue.best_effort--;
      queue.timer?.stop();
      queue.timer = null;
      if (await writeBatch(queue, batch)) continue;
      if (queue.writes.some(({ done }) => done !== null)) continue;
      if (queue.writes.length === 0 || queue.outage === null) break;
      queue.timer = deps.clock.after(queue.outage.delay, () => startDraining(queue));
      queue.outage.delay = Math.min(queue.outage.delay * 2, MAX_RETRY_DELAY_MS);
      queue.draining = null;
      return;
    }
    queue.draining = null;
    queues.delete(queue.map_key);
  };

  const startDraining = (queue: TapeQueue): void => {
    queue.draining ??= drainQueue(queue);
  };

  const enqueue = (
    key: SessionKey,
    items: readonly TapeItem[],
    transaction: QueuedWrite["transaction"],
  ): Promise<AppendedEntries | null> =>
    new Promise((resolve, reject) => {
      const queue = getQueue(key);
      queue.writes.push({ items, done: { resolve, reject }, transaction });
      startDraining(queue);
    });

  return {
    async write(key, event) {
      const taped = toTapedEntry(event);
      if (taped === null) return;
      const items = [{ entry: taped.entry, event }];
      if (taped.essential) {
        await enqueue(key, items, null);
        return;
      }
      const queue = getQueue(key);
      if (queue.best_effort >= MAX_BEST_EFFORT) {
        reportLoss(queue, 1, new Error("the queue for best-effort entries is full: the store is too slow"));
        return;
      }
      queue.best_effort++;
      queue.writes.push({ items, done: null, transaction: null });
      if (queue.draining === null)
        queue.timer ??= deps.clock.after(BATCH_DELAY_MS, () => startDraining(queue));
    },
    append: async (key, items) => (await enqueue(key, items, null))!,
    appendInTransaction: enqueue,
    hold(key, hold) {
      holds.set(sessionMapKey(key), { hold, lost: false });
    },
    release(key, hold, outcome) {
      const map_key = sessionMapKey(key);
      const turn_hold = holds.get(map_key);
      if (
        turn_hold === undefined ||
        turn_hold.hold.run_id !== hold.run_id ||
        turn_hold.hold.fence !== hold.fence
      )
        return;
      if (outcome === "ended") {
        holds.delete(map_key);
        return;
      }
      // Late entries of the turn may still arrive. The number of lost holds is bounded; the oldest of them is dropped.
      holds.delete(map_key);
      holds.set(map_key, { hold, lost: true });
      if (holds.size > MAX_LOST_HOLDS) {
        for (const [oldest, { lost }] of holds) {
          if (!lost) continue;
          holds.delete(oldest);
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
      const requested = key === undefined ? undefined : queues.get(sessionMapKey(key));
      const selected = key === undefined ? queues.values() : requested === undefined ? [] : [requested];
      for (const queue of selected) startDraining(queue);
      await Promise.all(selected.map((queue) => queue.draining ?? Promise.resolve()));
    },
  };
}
