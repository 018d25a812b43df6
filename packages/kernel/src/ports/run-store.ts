/** Runs: one row per turn, begun together with the message that asks and ended together with the answer. */
import type { Run } from "@backplane/contract";
import type { OnceKey } from "./access-store.ts";
import type { Facts } from "./facts.ts";
import type { Page, PageOf, Scope } from "./scope.ts";
import type { Appended, NewEntry, SessionKey } from "./session-store.ts";

/** Entries that ride in another write's transaction. */
export interface TapeWrite {
  key: SessionKey;
  entries: readonly NewEntry[];
}

export interface RunRow extends Run {
  node_id: string;
}

export type RunEnd = Pick<Run, "status" | "output" | "error" | "usage" | "iterations" | "ended_at">;

export interface RunStore {
  /**
   * Row, entries and events in one transaction. Throws `session.not_found`. The answer of `once` is the JSON of
   * `{id, entry_id}`; throws `idempotency.in_progress` when it is taken, and then nothing is written.
   */
  start(run: RunRow, tape: TapeWrite, facts: Facts, once?: OnceKey): Promise<Appended>;
  /**
   * Ends it once; null when it has ended already, and then nothing is written. `output.entry_id` becomes the id
   * of the last of the entries. Without entries it answers an empty range: `last_id` before `first_id`.
   */
  end(scope: Scope, id: string, end: RunEnd, tape: TapeWrite | null, facts: Facts): Promise<Appended | null>;
  /**
   * Writes how often it was resumed, and the entries that tell of it, in one transaction; null when it has ended or is
   * no longer `run.node_id`'s, and then nothing is written.
   */
  resume(run: RunRow, tape: TapeWrite): Promise<Appended | null>;
  get(scope: Scope, id: string): Promise<Run | null>;
  /** Newest first. */
  list(
    scope: Scope,
    filter: { session_id?: string; chain_id?: string; workspace?: string },
    page: Page,
  ): Promise<PageOf<Run>>;
  /** Running rows whose node is gone; they now belong to `node_id`. */
  claimOrphans(node_id: string, now: number, limit: number): Promise<RunRow[]>;
}
