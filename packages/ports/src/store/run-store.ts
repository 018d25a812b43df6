/**
 * One row per run. The row of a turn is created in the transaction of the user's message and ended in the transaction
 * of the answer.
 */
import type { RiskContext, Run } from "@backplane/contract";
import type { Page, PageOf, Scope } from "../scope/scope.ts";
import type { IdempotencyClaim } from "./access-store.ts";
import type { ChangeRecords } from "./change-records.ts";
import type { AppendedEntries, NewEntry, SessionKey } from "./session-store.ts";

/** Entries for the head of a session, written in the transaction of another record. */
export interface TapeWrite {
  key: SessionKey;
  entries: readonly NewEntry[];
  /** The hold of the turn that writes; absent if no turn does. */
  hold?: RunHold;
}

/** A gateway's ownership of a turn. Each takeover raises the fence; writes with an old fence are rejected. */
export interface RunHold {
  run_id: string;
  fence: number;
}

export interface RunRow extends Run {
  node_id: string;
  fence: number;
  /** The number of messages that other gateways added to the turn. */
  joins: number;
  /** Set for the run of a sub-agent. */
  subagent?: SubagentRun;
}

/** The call that waits for a sub-agent, and the limits of the sub-agent. A resumed run has the same limits. */
export interface SubagentRun {
  invocation_id: string;
  /** Identifies the sub-agent when its call runs again; absent if the request had no key. */
  key?: string;
  iterations: number;
  /** Tool names; null allows every tool that the caller may use. */
  tools: string[] | null;
  wall_ms: number;
  context: RiskContext;
}

export type RunEnd = Pick<Run, "status" | "output" | "error" | "usage" | "iterations" | "ended_at">;

export interface RunStore {
  /**
   * Writes row, entries and events in one transaction. The last `own_entries` of the tape belong to the run; the first
   * of them becomes its `first_entry_id`. Throws, without writing anything: `session.not_found`; `session.busy` with
   * the `run_id` of the session's current turn on any gateway; `idempotency.in_progress` if `once` is claimed;
   * `run.taken_over` if another gateway owns `parent`, the turn that a sub-agent's run belongs to; `harness.limit` if
   * `execution`, which the run counts against, has ended or allows no further run at this depth. The response stored
   * for `once` is the JSON of `{id, entry_id}`.
   */
  start(
    run: RunRow,
    tape: TapeWrite,
    own_entries: number,
    records: ChangeRecords,
    once?: IdempotencyClaim,
    parent?: RunHold,
    execution?: { id: string; depth: number },
  ): Promise<AppendedEntries>;
  /**
   * Ends the run once. Without writing anything, resolves to null if the run has ended or another gateway owns it,
   * and to the number of `joins` if other gateways added more messages than expected. `output.entry_id` becomes the
   * id of the last entry. Without entries the returned range is empty: `last_id` precedes `first_id`. The returned
   * usage includes the calls of the run to the model endpoints, and so do the `tokens` of the run's events.
   */
  end(
    scope: Scope,
    hold: RunHold,
    joins: number,
    end: RunEnd,
    tape: TapeWrite | null,
    records: ChangeRecords,
  ): Promise<(AppendedEntries & Pick<Run, "usage" | "iterations">) | { joins: number } | null>;
  /**
   * Adds a message to a turn of another gateway. Resolves to null if the run has ended or already has `max_joins` added
   * messages. The response stored for `once` is the same as for an append.
   */
  join(
    run_id: string,
    max_joins: number,
    tape: TapeWrite,
    once?: IdempotencyClaim,
  ): Promise<AppendedEntries | null>;
  /**
   * Writes the resume count of `run` and the entries of `tape` in one transaction. Resolves to null, without writing
   * anything, if the run has ended or `run.node_id` no longer owns it.
   */
  resume(run: RunRow, tape: TapeWrite): Promise<AppendedEntries | null>;
  /** Resolves to null if the run has ended or another gateway owns it. */
  checkHold(hold: RunHold): Promise<{ joins: number } | null>;
  get(scope: Scope, id: string): Promise<Run | null>;
  /** The oldest run of a session. */
  findFirst(key: SessionKey): Promise<RunRow | null>;
  /** Newest first. */
  list(
    scope: Scope,
    filter: { session_id?: string; chain_id?: string; workspace?: string },
    page: Page,
  ): Promise<PageOf<Run>>;
  /** Claims running rows of dead nodes for `node_id` and raises their fence; their calls then have no owner. */
  claimOrphans(node_id: string, now: number, limit: number): Promise<RunRow[]>;
}
