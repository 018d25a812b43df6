/** Runs: one row per turn, begun together with the message that asks and ended together with the answer. */
import type { Run } from "@backplane/contract";
import type { Page, PageOf, Scope } from "../scope/scope.ts";
import type { OnceKey } from "./access-store.ts";
import type { Facts } from "./facts.ts";
import type { Appended, NewEntry, SessionKey } from "./session-store.ts";

/** Entries that ride in another write's transaction. */
export interface TapeWrite {
  key: SessionKey;
  entries: readonly NewEntry[];
  /** Of the turn that writes; left out, no turn does. */
  hold?: RunHold;
}

/** What a gateway has of a turn that it carries. Each takeover raises the fence, and the old hold writes nothing. */
export interface RunHold {
  run_id: string;
  fence: number;
}

export interface RunRow extends Run {
  node_id: string;
  fence: number;
  /** Messages that other gateways added. */
  joins: number;
}

export type RunEnd = Pick<Run, "status" | "output" | "error" | "usage" | "iterations" | "ended_at">;

export interface RunStore {
  /**
   * Row, entries and events in one transaction. Throws `session.not_found`, and `session.busy` with the `run_id` of
   * the turn that the session has, on whatever gateway. The answer of `once` is the JSON of `{id, entry_id}`; throws
   * `idempotency.in_progress` when it is taken. `parent` is the turn that a sub-agent's run belongs to; throws
   * `run.taken_over` when another gateway has it. Whatever it throws, nothing is written.
   */
  start(run: RunRow, tape: TapeWrite, facts: Facts, once?: OnceKey, parent?: RunHold): Promise<Appended>;
  /**
   * Ends it once; null when it has ended already or another gateway has it, and then nothing is written. Nor is it when
   * other gateways added more messages than `joins`: then it answers how many. `output.entry_id` becomes the id
   * of the last of the entries. Without entries it answers an empty range: `last_id` before `first_id`.
   */
  end(
    scope: Scope,
    hold: RunHold,
    joins: number,
    end: RunEnd,
    tape: TapeWrite | null,
    facts: Facts,
  ): Promise<Appended | { joins: number } | null>;
  /**
   * Adds a message to a turn that another gateway carries. Null: the run has ended, or has `most` of them already. The
   * answer of `once` is as for an append.
   */
  join(run_id: string, most: number, tape: TapeWrite, once?: OnceKey): Promise<Appended | null>;
  /**
   * Writes how often it was resumed, and the entries that tell of it, in one transaction; null when it has ended or is
   * no longer `run.node_id`'s, and then nothing is written.
   */
  resume(run: RunRow, tape: TapeWrite): Promise<Appended | null>;
  /** Null: it has ended, or another gateway has it. */
  held(hold: RunHold): Promise<{ joins: number } | null>;
  get(scope: Scope, id: string): Promise<Run | null>;
  /** Newest first. */
  list(
    scope: Scope,
    filter: { session_id?: string; chain_id?: string; workspace?: string },
    page: Page,
  ): Promise<PageOf<Run>>;
  /** Running rows whose node is gone; they now belong to `node_id` with a risen fence, and their calls to nobody. */
  claimOrphans(node_id: string, now: number, limit: number): Promise<RunRow[]>;
}
