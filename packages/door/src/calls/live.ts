/**
 * The calls that this node carries now. A call is in exactly one stage; `interrupt` is how a cancel reaches it
 * while it waits here and not in the runner.
 */

import { type EgressRecord, IdTable, type Invocation, type Json, type JsonObject } from "@backplane/contract";
import type { Ask, Changes, InvocationRow, Scope } from "@backplane/ports";
import type { NodeLease } from "../node/node-lease.ts";
import type { Coverage } from "./coverage.ts";
import type { EventTape } from "./event-tape.ts";
import type { Revocation } from "./revocation.ts";

export type Stage = "opening" | "approval" | "queued" | "running" | "settling";

/** A revocation: whoever asked for the call may no longer. */
export type StopCause = "user" | "shutdown" | Revocation;

export class LiveCall {
  readonly row: InvocationRow;
  readonly settled: Promise<Invocation>;
  stage: Stage = "opening";
  /** Who wants it to end early. The first reason counts. */
  stopped: StopCause | null = null;
  interrupt: (() => void) | null = null;
  tape: EventTape | null = null;
  /** Connections that its attempts were refused so far. */
  egress: EgressRecord | null = null;
  /** Answers what the plugin asks of its caller. */
  ask: Ask | null = null;
  /** The gateway's own model, where its binding may have it. */
  lend: ((params: JsonObject) => Promise<Json>) | null = null;
  /** What is left of the deadline; less than all of it after a recovery. */
  left_ms: number;
  /** When its authority was last read, on the monotonic clock. */
  checked_at = Number.NEGATIVE_INFINITY;
  /** What a person said yes to; null: nobody was asked. */
  approved: Coverage | null = null;
  /** Where the numbering of events goes on; more than 0 after a recovery. */
  last_seq = 0;
  /** Made for the first watcher: most calls have none. */
  #listeners: Set<(invocation: Invocation) => void> | null = null;
  #resolve!: (invocation: Invocation) => void;
  #final: Invocation | null = null;

  /** How often the gateway's lease had run out when the row was written. */
  lapses: number;

  constructor(row: InvocationRow, lapses: number) {
    this.row = row;
    this.lapses = lapses;
    this.left_ms = row.timeout_ms;
    this.settled = new Promise((resolve) => {
      this.#resolve = resolve;
    });
  }

  finish(invocation: Invocation): void {
    if (this.#final !== null) return;
    this.#final = invocation;
    this.#resolve(invocation);
    for (const tell of this.#listeners ?? []) tell(invocation);
    this.#listeners = null;
  }

  /** Unlike `settled.then`, it can be taken back: who stops watching a call of weeks leaves nothing with it. */
  onSettled(tell: (invocation: Invocation) => void): () => void {
    if (this.#final !== null) tell(this.#final);
    else {
      this.#listeners ??= new Set();
      this.#listeners.add(tell);
    }
    return () => void this.#listeners?.delete(tell);
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
    this.#calls.add(row.id, call);
    this.#changes.emit("call.added", {});
    return call;
  }

  drop(call: LiveCall): void {
    this.#calls.delete(call.row.id);
    if (this.#calls.size === 0) for (const tell of this.#idle.splice(0)) tell();
  }

  get(id: string): LiveCall | undefined {
    return this.#calls.get(id);
  }

  /** Only what `scope` may see: another project's call does not exist for it. */
  visible(scope: Scope, id: string): LiveCall | undefined {
    const call = this.get(id);
    if (call === undefined || call.row.org_id !== scope.org_id) return undefined;
    return scope.project_id === null || call.row.project_id === scope.project_id ? call : undefined;
  }

  all(): LiveCall[] {
    return this.#calls.values();
  }

  count(stage: Stage): number {
    let count = 0;
    for (const call of this.#calls.values()) if (call.stage === stage) count++;
    return count;
  }

  idle(): Promise<void> {
    if (this.#calls.size === 0) return Promise.resolve();
    return new Promise((resolve) => this.#idle.push(resolve));
  }
}
