/**
 * The calls in flight on this node. A call is in exactly one stage. While it waits in the gateway rather than
 * in the runner, a cancellation reaches it through `interrupt`.
 */

import {
  type EgressRecord,
  type Execution,
  IdTable,
  type Invocation,
  type Json,
  type JsonObject,
} from "@backplane/contract";
import type {
  AnswerPluginRequest,
  Changes,
  ExecutionRow,
  InvocationRow,
  JobHold,
  NewExecution,
  Scope,
} from "@backplane/ports";
import type { CallProgressFeed } from "@backplane/session";
import type { NodeLease } from "../node/node-lease.ts";
import type { EventLog } from "./event-log.ts";
import type { Revocation } from "./revocation.ts";

export type CallStage = "opening" | "approval" | "queued" | "running" | "settling";

/** Why a call ends early; a Revocation means that its caller or its binding may no longer be used. */
export type StopCause = "user" | "shutdown" | Revocation;

/** Digests by the name of the part, as the approver sees it: `config.region`, `secret.token`. */
export type CoveredParts = Readonly<Record<string, string>>;

/**
 * The content of an approval: one digest of everything that decides what the call does, and a digest of each part.
 */
export interface Coverage {
  digest: string;
  parts: CoveredParts;
}

/** The execution that a call begins or resumes. */
export interface ExecutionPlan {
  id: string;
  write: NewExecution | { resumes: ExecutionRow };
  target: Execution["target"];
  /** Milliseconds since the epoch; null if only the timeout of the call applies. */
  deadline: number | null;
}

export class LiveCall {
  readonly row: InvocationRow;
  readonly settled: Promise<Invocation>;
  stage: CallStage = "opening";
  /** Why the call has to end early; the first cause counts. */
  stopped: StopCause | null = null;
  interrupt: (() => void) | null = null;
  event_log: EventLog | null = null;
  /** Progress for the watchers of the session; null outside a turn, or while nothing was reported. */
  progress: CallProgressFeed | null = null;
  /** The lease of the delivery; null if the call is not a delivery attempt. */
  job: JobHold | null = null;
  /** Called when the plugin has ended and the settlement is being written. */
  onEnded: (() => void) | null = null;
  /** The refused connections of all attempts so far. */
  egress: EgressRecord | null = null;
  /** Lets the calling client answer the plugin's requests. */
  answerRequest: AnswerPluginRequest | null = null;
  /** Answers sampling requests with the gateway's own model; null if the binding has no access to it. */
  sample: ((params: JsonObject) => Promise<Json>) | null = null;
  /** The time until the deadline; less than the timeout of the row after a recovery. */
  remaining_ms: number;
  /** When the authority of the caller was last read, on the monotonic clock. */
  checked_at = Number.NEGATIVE_INFINITY;
  /** The coverage that a person approved while the call was live on this node; otherwise null. */
  approved: Coverage | null = null;
  /** Whether the code of the plugin may have seen the call, in any attempt. */
  dispatched = false;
  /** How many attempts the call had with a version on trial before it fell back to the previous version. */
  attempts_before_fallback = 0;
  /** The number of the last event from before the recovery of the call; 0 for a call that was not recovered. */
  last_seq = 0;
  /** Protocol violations that the gateway found itself, in addition to those that the runner counts. */
  violations = 0;
  /** The harness execution that this call begins or resumes; null once the harness has started and after a recovery. */
  execution: ExecutionPlan | null = null;
  /** How often the harness has been started since its last checkpoint. */
  starts = 0;
  /** Whether this node has found that the call has ended or that another gateway continues it. */
  lost = false;
  /** Whether the events of the harness are published on its session. */
  publishes_events = false;
  /** Listeners for the settlement. Created with the first one, because most calls have none. */
  #listeners: Set<(invocation: Invocation) => void> | null = null;
  #resolve!: (invocation: Invocation) => void;
  #final: Invocation | null = null;

  /** The value of `NodeLease.lapses` when the row was written. */
  lease_lapses: number;

  constructor(row: InvocationRow, lease_lapses: number) {
    this.row = row;
    this.lease_lapses = lease_lapses;
    this.remaining_ms = row.timeout_ms;
    this.settled = new Promise((resolve) => {
      this.#resolve = resolve;
    });
  }

  finish(invocation: Invocation): void {
    if (this.#final !== null) return;
    this.#final = invocation;
    this.#resolve(invocation);
    for (const listener of this.#listeners ?? []) listener(invocation);
    this.#listeners = null;
  }

  /** Unlike `settled.then`, this can be undone, so that watchers of a call that runs for weeks do not accumulate. */
  onSettled(listener: (invocation: Invocation) => void): () => void {
    if (this.#final !== null) listener(this.#final);
    else {
      this.#listeners ??= new Set();
      this.#listeners.add(listener);
    }
    return () => void this.#listeners?.delete(listener);
  }
}

export class LiveCalls {
  readonly #calls = new IdTable<LiveCall>();
  readonly #idle: (() => void)[] = [];
  readonly #lease: Pick<NodeLease, "lapses">;
  readonly #changes: Pick<Changes, "emit">;

  constructor(lease: Pick<NodeLease, "lapses">, changes: Pick<Changes, "emit">) {
    this.#lease = lease;
    this.#changes = changes;
  }

  get size(): number {
    return this.#calls.size;
  }

  add(row: InvocationRow): LiveCall {
    const call = new LiveCall(row, this.#lease.lapses);
    this.#calls.set(row.id, call);
    this.#changes.emit("call.added", {});
    return call;
  }

  drop(call: LiveCall): void {
    this.#calls.delete(call.row.id);
    if (this.#calls.size === 0) for (const resolve of this.#idle.splice(0)) resolve();
  }

  get(id: string): LiveCall | undefined {
    return this.#calls.get(id);
  }

  /** Finds a call that is visible in `scope`. Any other call is treated as missing. */
  findVisible(scope: Scope, id: string): LiveCall | undefined {
    const call = this.get(id);
    if (call === undefined || call.row.org_id !== scope.org_id) return undefined;
    return scope.project_id === null || call.row.project_id === scope.project_id ? call : undefined;
  }

  all(): LiveCall[] {
    return this.#calls.values();
  }

  count(stage: CallStage): number {
    let count = 0;
    for (const call of this.#calls.values()) if (call.stage === stage) count++;
    return count;
  }

  /** Resolves when no call is in flight. */
  idle(): Promise<void> {
    if (this.#calls.size === 0) return Promise.resolve();
    return new Promise((resolve) => this.#idle.push(resolve));
  }
}
