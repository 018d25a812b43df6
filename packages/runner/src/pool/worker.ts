/**
 * One process of the pool with its calls. A worker is unused when no call runs on it and none waits for it. A
 * pooled worker that is ready and unused is idle; only idle and prewarmed workers are evicted.
 */
import type { EgressSession } from "../egress/create-egress.ts";
import type { Refusal } from "../egress/destinations/refusals.ts";
import type { PluginInstance } from "../processes/plugin-instance.ts";
import type { LaunchStep } from "../processes/plugin-process.ts";
import type { Deadline } from "../time/deadlines.ts";
import type { LaunchSubject } from "./breaker.ts";
import type { WorkerRefusals } from "./worker-refusals.ts";

/** A call as its worker sees it. */
export interface ActiveCall {
  /** The id of the request. */
  readonly id: string;
  violations: number;
  refused(refusal: Refusal, shared: boolean): void;
  /** The position of the call in the worker's list; set by the worker. */
  index: number;
  /** Whether the answer is known; the rest of the call then needs no egress. Set by the worker. */
  has_answer: boolean;
}

/** The initial state of a worker. */
export interface WorkerOptions {
  process: PluginInstance;
  subject: LaunchSubject;
  key: string;
  pooled: boolean;
  resident: boolean;
  calls: ActiveCall[];
  recent_secrets: string[];
  refusals: WorkerRefusals;
  idle_since: number;
  /** Throws when the files of its process have changed. */
  check: () => Promise<void>;
}

export class Worker {
  readonly process: PluginInstance;
  readonly subject: LaunchSubject;
  /** The pool key, extended by a digest of the secrets that the process received at its start. */
  readonly key: string;
  readonly pooled: boolean;
  /** A server that stays up and works between calls. */
  readonly resident: boolean;
  /** Calls that have not ended, in no particular order. */
  readonly calls: ActiveCall[];
  /** The number of these calls without an answer yet. */
  #unanswered = 0;
  /** Calls that wait for the process to become ready. */
  waiting = 0;
  idle_since: number;
  idle_check: Deadline | null = null;
  /** Secrets of recent calls, which can appear on the shared stderr of any call. */
  readonly recent_secrets: string[];
  /** Assigns refused connections to its calls. */
  readonly refusals: WorkerRefusals;
  /** Null before the process is launched, and without a sandbox. */
  #egress: EgressSession | null = null;
  /** Leaves the queue for a slot; null if it is not queued. */
  leave_queue: (() => void) | null = null;
  /** Resolves when the process has exited and its resources are released. */
  released: Promise<void>;
  /** A second verification of the package, for a process that was prewarmed. */
  verification: Promise<unknown> | null = null;
  /** Time of the last check of its files; null if there was none since the process became ready. */
  checked_at: number | null = null;
  readonly check: () => Promise<void>;
  #launch_step: LaunchStep = "prepare";
  readonly #launch_listeners = new Set<(step: LaunchStep) => void>();

  constructor(options: WorkerOptions) {
    this.process = options.process;
    this.subject = options.subject;
    this.key = options.key;
    this.pooled = options.pooled;
    this.resident = options.resident;
    this.calls = options.calls;
    this.idle_since = options.idle_since;
    this.recent_secrets = options.recent_secrets;
    this.refusals = options.refusals;
    this.check = options.check;
    this.released = options.process.gone;
  }

  reportLaunchStep(step: LaunchStep): void {
    this.#launch_step = step;
    for (const listener of this.#launch_listeners) listener(step);
  }

  /**
   * Calls the listener with the current step of the launch and with each later one. Returns a function that removes the
   * listener.
   */
  watchLaunch(listener: (step: LaunchStep) => void): () => void {
    if (this.process.state === "launching") listener(this.#launch_step);
    this.#launch_listeners.add(listener);
    return () => void this.#launch_listeners.delete(listener);
  }

  get unused(): boolean {
    return this.calls.length === 0 && this.waiting === 0;
  }

  get idle(): boolean {
    return this.pooled && this.process.state === "ready" && this.unused;
  }

  /**
   * Whether the egress of the process is held. Only a resident server reaches anything without a call, or while an
   * answered call waits for its files, its refused connections or the exit of the process.
   */
  get held(): boolean {
    return !this.resident && this.#unanswered === 0 && this.waiting === 0;
  }

  /**
   * Whether no call waits for the process while its egress is held: a start may then fail because it waits for egress.
   */
  get unusedPrewarmed(): boolean {
    return this.#egress !== null && this.held;
  }

  attachEgress(session: EgressSession): void {
    this.#egress = session;
    this.#updateHold();
  }

  /** Adds or removes a call that waits for the process. */
  addWaiting(change: 1 | -1): void {
    this.waiting += change;
    this.#updateHold();
  }

  startCall(call: ActiveCall): void {
    const { calls } = this;
    call.index = calls.length;
    call.has_answer = false;
    calls.push(call);
    this.#unanswered++;
    this.#egress?.resetCounts();
    this.refusals.assignEarly(call);
    this.#updateHold();
  }

  recordAnswer(call: ActiveCall): void {
    if (call.has_answer || this.calls[call.index] !== call) return;
    call.has_answer = true;
    this.#unanswered--;
    this.#updateHold();
  }

  /**
   * Moves the last call into the free position, so that no search is needed (benchmark runner.warm-call). True if no
   * call is left.
   */
  endCall(call: ActiveCall): boolean {
    const { calls } = this;
    if (calls[call.index] !== call) return false;
    this.recordAnswer(call);
    const last = calls.pop()!;
    if (last !== call) {
      calls[call.index] = last;
      last.index = call.index;
    }
    return calls.length === 0;
  }

  #updateHold(): void {
    this.#egress?.hold(this.held);
  }

  /** Counts a violation for the call with this id. Without an id it is counted once, for one of the calls in flight. */
  recordViolation(request_id: string | undefined): void {
    const call = request_id === undefined ? this.calls[0] : this.calls.find(({ id }) => id === request_id);
    if (call !== undefined) call.violations++;
  }
}
