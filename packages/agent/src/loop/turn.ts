/** The state of one running turn: its caller and session, its limits, and its stop signal. */

import { addTokenUsage, type RiskContext, type Run, type TokenUsage, tokenUsage } from "@backplane/contract";
import { type OfferedTool, type Revocation, SEARCH_TOOL } from "@backplane/door";
import type { Caller, RunHold, RunRow, SessionKey } from "@backplane/ports";
import type { History } from "./history.ts";

/** `lost` means that another gateway has taken over the turn. */
export type StopReason = "user" | "shutdown" | "wall" | "revoked" | "lost";

/** The limits of a turn; for a sub-agent, those that its parent set. The kernel enforces them (subagent.enforced). */
export interface TurnLimits {
  iterations: number;
  /** Tool names. Null allows every tool that the caller may use. */
  tools: ReadonlySet<string> | null;
}

export class Turn {
  readonly key: SessionKey;
  readonly caller: Caller;
  readonly run: RunRow;
  readonly limits: TurnLimits;
  /** Selects the risk tolerance that applies to the tool calls of this turn. */
  readonly context: RiskContext;
  readonly settled: Promise<Run>;
  /**
   * Resolves when the session is free on this gateway. When another gateway holds the turn, this is before
   * `settled`.
   */
  readonly released: Promise<void>;
  /**
   * Every tool that exists for the caller. `listOfferedTools()` returns the names of those that the model is offered
   * now.
   */
  tools: ReadonlyMap<string, OfferedTool> = new Map();
  /** Deferred tools that the model has found by searching. */
  readonly found_tools = new Set<string>();
  history!: History;
  usage: TokenUsage = tokenUsage();
  iterations = 0;
  /** The text of the unfinished answer. */
  partial = "";
  /** The tools outside the allow-list that the model called. */
  forbidden: string[] = [];
  /** User messages since the last model call. Messages from other gateways count as one per check. */
  new_messages = 0;
  /** The number of messages that joined the turn on this gateway. */
  joined = 0;
  /** The number of messages from other gateways that the turn has read. */
  joins: number;
  /** Set after the last step. A message that arrives now begins the next turn. */
  closing = false;
  /** The model answer whose calls are running. A request of another step is too late and is ignored. */
  step: string | null = null;
  readonly #joining = new Set<Promise<unknown>>();
  readonly #calls = new Set<Promise<unknown>>();
  stopped: StopReason | null = null;
  /** Set when the turn was stopped as `revoked`. */
  revocation: Revocation | null = null;
  readonly #stop = new AbortController();
  #resolve!: (run: Run) => void;
  readonly release: () => void;

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
    this.released = promise;
    this.release = resolve;
  }

  get signal(): AbortSignal {
    return this.#stop.signal;
  }

  /** Every write of the turn carries this hold, so that the store rejects writes after a takeover. */
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

  /** Called when the caller of the turn has lost its authority. */
  revoke(reason: Revocation): void {
    if (this.stopped === null) this.revocation = reason;
    this.stop("revoked");
  }

  /** Returns whether a call of this step may still begin. */
  acceptsCall(step: unknown): boolean {
    return !this.closing && step === this.step;
  }

  /** Registers work that must finish before the turn ends. */
  async waitFor<T>(work: Promise<T>): Promise<T> {
    this.#calls.add(work);
    try {
      return await work;
    } finally {
      this.#calls.delete(work);
    }
  }

  /** Rejects new calls and stops the running ones. Resolves when the ends of all calls are on the tape. */
  async close(): Promise<void> {
    this.closing = true;
    if (this.#calls.size === 0) return;
    this.#stop.abort();
    while (this.#calls.size > 0) await Promise.allSettled(this.#calls);
  }

  /** Called when another gateway added a message before the turn could end. */
  reopen(): void {
    this.closing = false;
  }

  allows(tool: string): boolean {
    return this.limits.tools === null || this.limits.tools.has(tool);
  }

  /** Whether the tool is deferred and the model has not found it yet. */
  hides({ name, deferred_by }: OfferedTool): boolean {
    if (deferred_by === null || this.found_tools.has(name)) return false;
    if (deferred_by === "author" || deferred_by === "policy") return true;
    // An agent with a list of tools that lacks tool_search could never find the tools on its list.
    return this.allows(SEARCH_TOOL);
  }

  /**
   * Returns the names of the tools that the model is offered now: every allowed tool, except deferred tools that it has
   * not found.
   */
  listOfferedTools(): string[] {
    const names: string[] = [];
    for (const tool of this.tools.values()) {
      if (this.allows(tool.name) && !this.hides(tool)) names.push(tool.name);
    }
    return names;
  }

  addUsage(usage: TokenUsage): void {
    this.usage = addTokenUsage(this.usage, usage);
  }

  /**
   * Counts the message before it is written, so that the turn cannot end while the message is being written.
   */
  async join<T>(writing: Promise<T>): Promise<T> {
    this.joined++;
    this.new_messages++;
    this.#joining.add(writing);
    try {
      return await writing;
    } catch (error) {
      // The message was not written, so the turn must not wait to answer it.
      this.joined--;
      this.new_messages = Math.max(0, this.new_messages - 1);
      throw error;
    } finally {
      this.#joining.delete(writing);
    }
  }

  /**
   * Waits until every joining message is on the tape or has failed. Messages that arrive later count as new.
   */
  async waitForJoining(): Promise<void> {
    while (this.#joining.size > 0) await Promise.allSettled(this.#joining);
    this.new_messages = 0;
  }

  /** Counts messages that another gateway has written to the tape. Returns false when there are none. */
  countJoinedElsewhere(joins: number): boolean {
    if (joins <= this.joins) return false;
    this.joins = joins;
    this.new_messages++;
    return true;
  }

  get has_new_messages(): boolean {
    return this.new_messages > 0;
  }

  end(run: Run): void {
    this.#resolve(run);
  }
}
