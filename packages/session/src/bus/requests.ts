/**
 * Requests that wait for an answer. An event answers a request when it carries the request's id, has one of the
 * requested kinds, is on the same session in the same scope, and comes from the requested plugin if `from` is set.
 * Answers are matched when they are delivered, so every event that was published on the session before the answer has
 * been delivered by then. All other events, including late answers, are ignored. If `from` is one plugin and its
 * handler fails, the request fails with the error of the handler.
 */

import { BackplaneError, type BusEvent, IdTable } from "@backplane/contract";
import type { Clock, Timer } from "@backplane/ports";
import type { RequestOptions } from "./bus-port.ts";
import type { Subscriber } from "./routes.ts";

export interface HandlerFailure {
  message: string;
  timed_out: boolean;
}

/** A request from its call to its end; `markSent` sets the id that answers refer to. */
export interface OpenRequest {
  readonly answer: Promise<BusEvent>;
  readonly ended: boolean;
  markSent(event: BusEvent): void;
  fail(error: Error): void;
}

/**
 * A class because an object literal with accessors would create a hidden class per request (benchmark bus.dispatch).
 */
class PendingRequest implements OpenRequest {
  readonly requester: Subscriber;
  readonly answer: Promise<BusEvent>;
  ended = false;
  readonly #table: IdTable<PendingRequest>;
  readonly #kind: string;
  readonly #options: RequestOptions;
  readonly #onUnanswered: (error: Error) => void;
  readonly #timer: Timer;
  readonly #abort: (() => void) | null;
  #request: BusEvent | null = null;
  #resolve!: (answer: BusEvent) => void;
  #reject!: (error: Error) => void;

  constructor(
    table: IdTable<PendingRequest>,
    clock: Clock,
    requester: Subscriber,
    kind: string,
    options: RequestOptions,
    onUnanswered: (error: Error) => void,
  ) {
    this.#table = table;
    this.requester = requester;
    this.#kind = kind;
    this.#options = options;
    this.#onUnanswered = onUnanswered;
    this.answer = new Promise((resolve, reject) => {
      this.#resolve = resolve;
      this.#reject = reject;
    });
    this.#timer = clock.after(options.timeout_ms, () => this.#onTimeout());
    const { signal } = options;
    this.#abort = signal === undefined ? null : () => this.#onAbort();
    if (this.#abort === null) return;
    signal!.addEventListener("abort", this.#abort);
    if (signal!.aborted) this.#onAbort();
  }

  markSent(event: BusEvent): void {
    this.#request = event;
    this.#table.set(event.id, this);
    this.#options.onSent?.(event);
  }

  settle(answer: BusEvent): void {
    this.#close();
    this.#resolve(answer);
  }

  fail(error: Error): void {
    if (this.ended) return;
    this.#close();
    this.#reject(error);
    this.#onUnanswered(error);
  }

  accepts(answer: BusEvent): boolean {
    const request = this.#request;
    const { reply, from } = this.#options;
    return (
      request !== null &&
      answer.session_id === request.session_id &&
      answer.org_id === request.org_id &&
      answer.project_id === request.project_id &&
      (typeof reply === "string" ? reply === answer.kind : reply.includes(answer.kind)) &&
      (from === undefined ||
        (typeof from === "string" ? from === answer.source : from.includes(answer.source)))
    );
  }

  /** Whether only this plugin can answer. */
  isAnsweredOnlyBy(plugin: string): boolean {
    return this.#options.from === plugin;
  }

  #onTimeout(): void {
    const { timeout_ms } = this.#options;
    this.fail(new BackplaneError("timeout", `No answer to ${this.#kind} within ${timeout_ms} ms.`));
  }

  #onAbort(): void {
    this.fail(new BackplaneError("cancelled", `${this.#kind} was cancelled before it was answered.`));
  }

  #close(): void {
    this.ended = true;
    this.#timer.stop();
    if (this.#abort !== null) this.#options.signal?.removeEventListener("abort", this.#abort);
    if (this.#request !== null) this.#table.delete(this.#request.id);
  }
}

export class Requests {
  readonly #clock: Clock;
  readonly #pending = new IdTable<PendingRequest>();

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  get size(): number {
    return this.#pending.size;
  }

  /** `onUnanswered` lets the caller cancel a request that still waits for a place in the queue. */
  open(
    requester: Subscriber,
    kind: string,
    options: RequestOptions,
    onUnanswered: (error: Error) => void,
  ): OpenRequest {
    return new PendingRequest(this.#pending, this.#clock, requester, kind, options, onUnanswered);
  }

  /** Called for every event just before its delivery. */
  answer(event: BusEvent): void {
    if (this.#pending.size === 0) return;
    const { request_id } = event.payload as { request_id?: unknown };
    if (typeof request_id !== "string") return;
    const pending = this.#pending.get(request_id);
    if (pending?.accepts(event) === true) pending.settle(event);
  }

  /** Called when the handler of a plugin failed: a plugin that threw does not answer the event. */
  onHandlerFailed(event: BusEvent, plugin: string, { message, timed_out }: HandlerFailure): void {
    const pending = this.#pending.get(event.id);
    if (pending?.isAnsweredOnlyBy(plugin) !== true) return;
    pending.fail(
      timed_out
        ? new BackplaneError("timeout", `${plugin}: ${message}`)
        : new BackplaneError("plugin_failed", `${plugin} failed: ${message}`),
    );
  }

  /** Rejects the requests of one port that have entered a queue; `rejectWaiting` rejects the others. */
  failAll(error: Error, requester: Subscriber): void {
    for (const pending of this.#pending.values()) if (pending.requester === requester) pending.fail(error);
  }
}
