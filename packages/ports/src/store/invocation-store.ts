import type {
  Approval,
  DelegationScope,
  EgressRecord,
  HarnessCheckpoint,
  Invocation,
  InvocationError,
  InvocationEvent,
  InvocationStatus,
  Json,
  JsonObject,
  Role,
  TerminalStatus,
  ToolResultBlock,
} from "@backplane/contract";
import type { Page, PageOf, Scope } from "../scope/scope.ts";
import type { IdempotencyClaim } from "./access-store.ts";
import type { NewApproval } from "./approval-store.ts";
import type { ChangeRecords } from "./change-records.ts";
import type { ExecutionRow, NewExecution } from "./execution-store.ts";
import type { RunEnd, RunRow, TapeWrite } from "./run-store.ts";
import type { AppendedEntries } from "./session-store.ts";

/** The invocation with its internal fields. `fence` rises whenever another node takes over the row. */
export interface InvocationRow extends Invocation {
  node_id: string;
  fence: number;
  /** Set for hook deliveries, so that a hook's own invocation triggers no further hooks. */
  delivery_id: string | null;
  /** Set for a call from the agent loop. Locates the tape that receives the result, even after a restart. */
  turn: InvocationTurn | null;
  /** The number of calls that this call is nested in. */
  depth: number;
  /** The caller's role, checked against the current policy when the row is resumed. */
  role: Role;
  /** The channel that the call originates from; null for the gateway's own calls and for rows of earlier versions. */
  channel: string | null;
  /** The harness execution that the call belongs to: its own if it is a harness, or the one that caused it. */
  within: string | null;
  /** Set for a harness that has its own run, `run_id`, which ends with the call. */
  harness_run: { workspace: string } | null;
  /** Whether other calls may have the same trace. Written at open and not read back. */
  shares_trace?: boolean;
}

export interface InvocationTurn {
  workspace: string;
  tool_call_id: string;
  entry_meta?: JsonObject;
}

export interface Settlement {
  status: TerminalStatus;
  result: Json | null;
  tool_result: ToolResultBlock | null;
  error: InvocationError | null;
  retry_count: number;
  violations: number;
  stderr_tail: string | null;
  egress: EgressRecord | null;
  /** Null keeps the stored value. */
  started_at: string | null;
  ended_at: string;
}

export interface NewDelegation {
  token_hash: string;
  invocation_id: string;
  scope: Scope;
  scopes: DelegationScope[];
  expires_at: number;
}

export interface HarnessSettlement {
  execution_id: string;
  /** The checkpoint of the result; null keeps the stored one. */
  checkpoint: HarnessCheckpoint | null;
  /** `tape` is null if the session no longer exists. */
  run: { id: string; end: RunEnd; tape: TapeWrite | null } | null;
}

/** Records written in the same transaction as the opened row. */
export interface OpenRecords {
  approval?: NewApproval;
  delegation?: NewDelegation;
  records: ChangeRecords;
  /** If its session does not exist, `open` throws `session.not_found` and writes nothing. */
  tape?: TapeWrite;
  /** The execution that a harness call begins or resumes. Throws `execution.running` if another call has it. */
  execution?: NewExecution | { resumes: ExecutionRow };
  /**
   * The run of a harness. It does not occupy its session, so the harness can start turns there. Throws `session.busy`
   * if a turn of the session is running. The last `own_entries` of the tape belong to the run.
   */
  run?: { row: RunRow; own_entries: number };
  /**
   * Stores the response for this key: the row's id or, with `run`, the JSON of `{id, entry_id}` of the run. If the key
   * is already claimed, `open` throws `idempotency.in_progress` and writes nothing.
   */
  once?: IdempotencyClaim;
  /** The delivery that the call is an attempt of. If another node has taken it over, throws `delivery.taken_over`. */
  job?: JobHold;
}

/** The lease or the reservation of a job. */
export interface JobHold {
  id: string;
  fence: number;
  /** Set for a reserved job: the end of the lease that its start writes. */
  leased_until?: number;
}

/** A delivery that the settlement of its call completes. `error` is set if the hook failed and is not retried. */
export interface CompletedDelivery extends JobHold {
  now: number;
  error: string | null;
}

export interface InvocationStore {
  /**
   * Resolves when the row is on disk. A refused call is opened in a terminal status. Resolves to the ids of the tape
   * entries, or to null without a tape.
   */
  open(row: InvocationRow, related: OpenRecords): Promise<AppendedEntries | null>;
  /** Moves an approved row from waiting_approval to running. Resolves to false if fence or status have changed. */
  start(
    id: string,
    fence: number,
    started_at: string,
    related: { delegation?: NewDelegation },
  ): Promise<boolean>;
  /**
   * Replaces the approval of a waiting row, and updates the row to what would run now. Resolves to false if fence or
   * status have changed.
   */
  replaceApproval(row: InvocationRow, approval: NewApproval, records: ChangeRecords): Promise<boolean>;
  /**
   * Stores the retry count and the earlier attempts of a running row. With `renewed`, revokes the tokens of the row and
   * stores the new one, if any. Resolves to false if fence or status have changed.
   */
  recordRetry(row: InvocationRow, renewed?: { delegation?: NewDelegation }): Promise<boolean>;
  /**
   * Changes a running row to another binding and version, with which the call continues, and replaces its tokens.
   * Resolves to false if fence or status have changed.
   */
  recordFallback(row: InvocationRow, renewed: { delegation?: NewDelegation }): Promise<boolean>;
  /**
   * Ends the row once: terminal record, revoked delegation and outbox rows in one transaction. Resolves to false if the
   * row is already terminal or another node owns it. `delivered` is completed in the same transaction, unless another
   * node has taken it over.
   */
  settle(
    id: string,
    fence: number,
    end: Settlement,
    records: ChangeRecords,
    delivered?: CompletedDelivery,
  ): Promise<boolean>;
  /**
   * Like `settle`, with tape entries in the same transaction. Resolves to null and writes no entries in the cases
   * in which `settle` resolves to false. If the session does not exist, throws `session.not_found` and leaves the row
   * running.
   */
  settleWithTape(
    id: string,
    fence: number,
    end: Settlement,
    records: ChangeRecords,
    tape: TapeWrite,
  ): Promise<AppendedEntries | null>;
  /**
   * Like `settle`, and also ends the execution and the run of a harness. The entries are written only if no turn of the
   * session is running, because they would come between a call and its result. Resolves to null in the cases
   * in which `settle` resolves to false.
   */
  settleHarness(
    id: string,
    fence: number,
    end: Settlement,
    records: ChangeRecords,
    harness: HarnessSettlement,
  ): Promise<{ entries: AppendedEntries | null } | null>;
  get(scope: Scope, id: string): Promise<InvocationRow | null>;
  list(
    scope: Scope,
    filter: {
      /** A list matches any of its statuses. */
      status?: InvocationStatus | readonly InvocationStatus[];
      export_id?: string;
      session_id?: string;
      binding_id?: string;
    },
    page: Page,
  ): Promise<PageOf<Invocation>>;
  /** The calls that may share this trace, oldest first. */
  listTrace(scope: Scope, trace_id: string, page: Page): Promise<PageOf<InvocationRow>>;
  /** How often each export was called among the latest calls of each project, at most `latest` per project. */
  countCalls(scope: Scope, latest: number): Promise<ReadonlyMap<string, number>>;
  /** Best effort: the events are part of the next group commit, and the caller does not wait. */
  appendEvents(id: string, events: InvocationEvent[]): void;
  listEvents(id: string, after_seq: number, limit: number): Promise<InvocationEvent[]>;
  /**
   * Claims running rows of dead nodes for `node_id` and raises their fence. A node is dead when its lease has expired
   * or, with an exclusive home, when it is any other node.
   */
  claimOrphans(
    node_id: string,
    now: number,
    limit: number,
    /** Calls that are left to other nodes. */
    skipped?: readonly string[],
  ): Promise<InvocationRow[]>;
  /** The rows of dead nodes that a claim would take over. */
  listOrphans(
    status: "running" | "waiting_approval",
    node_id: string,
    now: number,
    limit: number,
  ): Promise<InvocationRow[]>;
  /** Claims rows of dead nodes whose calls await approval, so that their approvals can continue after a restart. */
  claimWaiting(
    node_id: string,
    now: number,
    limit: number,
    skipped?: readonly string[],
  ): Promise<{ row: InvocationRow; approval: Approval }[]>;
}
