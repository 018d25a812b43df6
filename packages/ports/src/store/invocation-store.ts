import type {
  Approval,
  DelegationScope,
  EgressRecord,
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
import type { OnceKey } from "./access-store.ts";
import type { NewApproval } from "./approval-store.ts";
import type { Facts } from "./facts.ts";
import type { TapeWrite } from "./run-store.ts";
import type { Appended } from "./session-store.ts";

/** The row plus what only the gateway sees. `fence` rises whenever another node takes the row over. */
export interface InvocationRow extends Invocation {
  node_id: string;
  fence: number;
  /** Hook deliveries, so that a hook's own invocation triggers no further hooks. */
  delivery_id: string | null;
  /** A call that the loop made: where its result goes on the tape, also after a restart. */
  turn: InvocationTurn | null;
  /** How many calls stand above it: one that a call started is one deeper than that call. */
  depth: number;
  /** Of whoever asked: when the row is entered again, the policy of that moment is asked about it. */
  role: Role;
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
  /** null keeps what the row has. */
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

/** Written in the same transaction as the opened row. */
export interface OpenWith {
  approval?: NewApproval;
  delegation?: NewDelegation;
  facts: Facts;
  /** Throws `session.not_found`, and then nothing is written. */
  tape?: TapeWrite;
  /** Its answer is the id of the row. Throws `idempotency.in_progress` when it is taken, and then nothing is written. */
  once?: OnceKey;
}

export interface InvocationStore {
  /**
   * Resolves when the row is on disk. A refused call is opened already terminal. Answers where the tape's entries
   * are, null without any.
   */
  open(row: InvocationRow, also: OpenWith): Promise<Appended | null>;
  /** waiting_approval → running, after the answer. False: the fence or the status moved on. */
  start(
    id: string,
    fence: number,
    started_at: string,
    also: { delegation?: NewDelegation },
  ): Promise<boolean>;
  /**
   * Another question about a row that waits: the row as it would run now, and the approval that it waits for. False: the
   * fence or the status moved on.
   */
  askAgain(row: InvocationRow, approval: NewApproval, facts: Facts): Promise<boolean>;
  /** Counts a retry while the row runs. `renewed` revokes the tokens it had and writes the one given, if any. */
  retried(
    id: string,
    fence: number,
    retry_count: number,
    renewed?: { delegation?: NewDelegation },
  ): Promise<boolean>;
  /**
   * Ends the row once: terminal record, revoked delegation and outbox rows in one transaction. False when
   * the row is terminal already or another node holds it.
   */
  settle(id: string, fence: number, end: Settlement, facts: Facts): Promise<boolean>;
  /**
   * As `settle`, with entries in the same transaction; null is its false, and then nothing is on the tape. Throws
   * `session.not_found`, and then the row goes on.
   */
  settleWithTape(
    id: string,
    fence: number,
    end: Settlement,
    facts: Facts,
    tape: TapeWrite,
  ): Promise<Appended | null>;
  get(scope: Scope, id: string): Promise<InvocationRow | null>;
  list(
    scope: Scope,
    filter: { status?: InvocationStatus; export_id?: string; session_id?: string; binding_id?: string },
    page: Page,
  ): Promise<PageOf<Invocation>>;
  /** Best effort: rides on the next group commit, nobody waits for it. */
  appendEvents(id: string, events: InvocationEvent[]): void;
  events(id: string, after_seq: number, limit: number): Promise<InvocationEvent[]>;
  /**
   * Running rows whose node is gone (its lease has expired; with an exclusive home, any other node). They
   * now belong to `node_id` with a risen fence.
   */
  claimOrphans(node_id: string, now: number, limit: number): Promise<InvocationRow[]>;
  /** Rows that wait for an approval, of any node, for re-arming at boot; taken over likewise. */
  claimWaiting(
    node_id: string,
    now: number,
    limit: number,
  ): Promise<{ row: InvocationRow; approval: Approval }[]>;
}
