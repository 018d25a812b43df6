/**
 * Writes bus events to the tapes of their sessions, in the order in which they came. An essential entry is
 * acknowledged when it is on disk; others wait a moment for company and are lost rather than hold anyone up,
 * which is told once per loss (tape.durable). One write per session is under way at a time, so ids follow order.
 */
import type { Clock, Logger, NewEntry, SessionKey, SessionStore, Timer } from "../ports/index.ts";
import { entryFor, type TapedEvent } from "./entry-for.ts";

export interface PersisterDeps {
  store: { sessions: Pick<SessionStore, "append"> };
  clock: Pick<Clock, "after">;
  log: Pick<Logger, "warn">;
  /** Told after a best-effort entry was lost; the bus makes a plugin.error of it. */
  lost(loss: { source: typeof PERSISTER_SOURCE; session_id: string; entries: number; error: string }): void;
}

export interface Persister {
  /** Resolves when an essential entry is on disk, and rejects when it is not; at once for all others. */
  write(key: SessionKey, event: TapedEvent): Promise<void>;
  /** Resolves when everything so far is on disk or lost. */
  drain(): Promise<void>;
}

/** Not `kernel`: the bus's guard against recursion lets it through. */
const PERSISTER_SOURCE = "kernel-session-persister";

const COMPANY_MS = 25;
const MAX_WAITING = 1_000;

interface Waiting {
  entry: NewEntry;
  done: { resolve(): void; reject(error: unknown): void } | null;
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
  const lanes = new Map<string, Lane>();

  const laneOf = (key: SessionKey): Lane => {
    const name = JSON.stringify([key.scope.org_id, key.scope.project_id, key.workspace, key.session_id]);
    let lane = lanes.get(name);
    if (lane === undefined) {
      lane = { name, key, waiting: [], best_effort: 0, timer: null, writing: null };
      lanes.set(name, lane);
    }
    return lane;
  };

  const report = (lane: Lane, entries: number, error: unknown): void => {
    const { session_id } = lane.key;
    deps.log.warn({ err: error, session_id, entries }, "entries of a session were lost");
    const message = error instanceof Error ? error.message : String(error);
    deps.lost({ source: PERSISTER_SOURCE, session_id, entries, error: message });
  };

  /** Until nothing waits; then the lane is gone, so idle sessions cost nothing. */
  const pump = async (lane: Lane): Promise<void> => {
    while (lane.waiting.length > 0) {
      const batch = lane.waiting;
      lane.waiting = [];
      lane.best_effort = 0;
      lane.timer?.stop();
      lane.timer = null;
      try {
        await deps.store.sessions.append(
          lane.key,
          batch.map((item) => item.entry),
        );
        for (const { done } of batch) done?.resolve();
      } catch (error) {
        const lost = batch.filter(({ done }) => done === null).length;
        if (lost > 0) report(lane, lost, error);
        for (const { done } of batch) done?.reject(error);
      }
    }
    lane.writing = null;
    lanes.delete(lane.name);
  };

  const start = (lane: Lane): void => {
    lane.writing ??= pump(lane);
  };

  return {
    async write(key, event) {
      const taped = entryFor(event);
      if (taped === null) return;
      const lane = laneOf(key);
      if (taped.essential) {
        await new Promise<void>((resolve, reject) => {
          lane.waiting.push({ entry: taped.entry, done: { resolve, reject } });
          start(lane);
        });
        return;
      }
      if (lane.best_effort >= MAX_WAITING) {
        report(lane, 1, new Error("the store is too slow for them"));
        return;
      }
      lane.best_effort++;
      lane.waiting.push({ entry: taped.entry, done: null });
      if (lane.writing === null) lane.timer ??= deps.clock.after(COMPANY_MS, () => start(lane));
    },
    async drain() {
      for (const lane of lanes.values()) start(lane);
      await Promise.all([...lanes.values()].map((lane) => lane.writing ?? Promise.resolve()));
    },
  };
}
