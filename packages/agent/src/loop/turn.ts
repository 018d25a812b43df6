/** One turn as the loop carries it: who asked for what, what it may do, and how it is told to stop. */

import type { RiskContext, Run, TokenUsage } from "@backplane/contract";
import { tokenUsage } from "@backplane/contract";
import type { OfferedTool, Revocation } from "@backplane/door";
import type { Caller, RunHold, RunRow, SessionKey } from "@backplane/ports";
import type { History } from "./history.ts";

/** `lost`: another gateway carries it on. */
export type StopReason = "user" | "shutdown" | "wall" | "revoked" | "lost";

/** What a sub-agent's turn may do; the kernel enforces it (subagent.enforced). */
export interface TurnLimits {
  iterations: number;
  /** Names; null allows all that the caller may use. */
  tools: ReadonlySet<string> | null;
}

export class Turn {
  readonly key: SessionKey;
  readonly caller: Caller;
  readonly run: RunRow;
  readonly limits: TurnLimits;
  /** Whose tolerance of risk counts for its tool calls. */
  readonly context: RiskContext;
  readonly settled: Promise<Run>;
  /** Resolves when the session is free here, which is before `settled` where another gateway has the turn. */
  readonly left: Promise<void>;
  /** Every tool that exists for the caller; offered is what `limits` leaves of it. */
  tools: ReadonlyMap<string, OfferedTool> = new Map();
  /** Deferred tools that the model has searched for. */
  readonly found = new Set<string>();
  history!: History;
  usage: TokenUsage = tokenUsage();
  iterations = 0;
  /** The text of the answer that is being given. */
  partial = "";
  /** Calls outside the allow-list. */
  forbidden: string[] = [];
  /** How often users spoke since the model was last asked. */
  steers = 0;
  /** Messages that joined it. */
  joined = 0;
  /** Messages of other gateways that it has read. */
  joins: number;
  /** The last step is taken: who speaks now speaks to the next turn. */
  closing = false;
  /** The model's answer whose calls are made now; a request of another step comes too late. */
  step: string | null = null;
  readonly #joining = new Set<Promise<unknown>>();
  readonly #calls = new Set<Promise<unknown>>();
  stopped: StopReason | null = null;
  /** Why it was stopped as `revoked`. */
  revocation: Revocation | null = null;
  readonly #stop = new AbortController();
  #resolve!: (run: Run) => void;
  readonly leave: () => void;

  constructor(
    key: SessionKey,
    caller: Caller,
    run: RunRow,
    limits: TurnLimits,
    context: RiskContext = "conversation",
  ) {
    this.key = key;
    this.caller = caller;
    this.run = run;
    this.joins = run.joins;
    this.limits = limits;
    this.context = context;
    this.settled = new Promise((resolve) => {
      this.#resolve = resolve;
    });
    const { promise, resolve } = Promise.withResolvers<void>();
    this.left = promise;
    this.leave = resolve;
  }

  get signal(): AbortSignal {
    return this.#stop.signal;
  }

  /** What every write of the turn carries. */
  get hold(): RunHold {
    return { run_id: this.run.id, fence: this.run.fence };
  }

  get to(): { session_id: string; scope: SessionKey["scope"] } {
    return { session_id: this.key.session_id, scope: this.key.scope };
  }

  stop(reason: StopReason): void {
    if (this.stopped !== null) return;
    this.stopped = reason;
    this.#stop.abort();
  }

  /** Whoever asked for it may no longer. */
  revoke(why: Revocation): void {
    if (this.stopped === null) this.revocation = why;
    this.stop("revoked");
  }

  /** Whether a call may still begin. */
  takes(step: unknown): boolean {
    return !this.closing && step === this.step;
  }

  /** Work for a call that is to be over before the turn is. */
  async waitFor<T>(work: Promise<T>): Promise<T> {
    this.#calls.add(work);
    try {
      return await work;
    } finally {
      this.#calls.delete(work);
    }
  }

  /** No call begins any more, those that run are stopped; resolves when their ends are on the tape. */
  async close(): Promise<void> {
    this.closing = true;
    if (this.#calls.size === 0) return;
    this.#stop.abort();
    while (this.#calls.size > 0) await Promise.allSettled(this.#calls);
  }

  /** Another gateway added a message before the turn could end. */
  reopen(): void {
    this.closing = false;
  }

  allows(tool: string): boolean {
    return this.limits.tools === null || this.limits.tools.has(tool);
  }

  /** What the model is shown now: everything allowed, of the deferred what it has found. */
  offered(): string[] {
    const names: string[] = [];
    for (const { name, deferred } of this.tools.values()) {
      if (this.allows(name) && (!deferred || this.found.has(name))) names.push(name);
    }
    return names;
  }

  addUsage(usage: TokenUsage): void {
    const sum = (field: keyof TokenUsage) => this.usage[field] + usage[field];
    this.usage = tokenUsage({
      input_other: sum("input_other"),
      input_cache_read: sum("input_cache_read"),
      input_cache_creation: sum("input_cache_creation"),
      output: sum("output"),
    });
  }

  /** Counts at once, so that the turn cannot end between the message and its entry. */
  async join<T>(writing: Promise<T>): Promise<T> {
    this.joined++;
    this.steers++;
    this.#joining.add(writing);
    try {
      return await writing;
    } catch (error) {
      // It was not said after all, so nobody waits for an answer to it.
      this.joined--;
      this.steers = Math.max(0, this.steers - 1);
      throw error;
    } finally {
      this.#joining.delete(writing);
    }
  }

  /** Until all that was said is on the tape, or failed to get there; what comes after counts as new. */
  async hear(): Promise<void> {
    while (this.#joining.size > 0) await Promise.allSettled(this.#joining);
    this.steers = 0;
  }

  /** Messages that another gateway has written to the tape. */
  joinedElsewhere(joins: number): boolean {
    if (joins <= this.joins) return false;
    this.joins = joins;
    this.steers++;
    return true;
  }

  get steered(): boolean {
    return this.steers > 0;
  }

  end(run: Run): void {
    this.#resolve(run);
  }
}
