/**
 * Requests that wait for an answer. An answer counts when it names the request's id, has one of the kinds that were
 * asked for, and comes on the same session in the same scope (and from the plugin that was asked, when one was
 * named). It is looked at when its turn in the session comes, so that whatever was published before it has been
 * handled. Every other answer, a late one included, resolves nothing.
 */

import { BackplaneError, type BusEvent, IdTable } from "@backplane/contract";
import type { Clock, Timer } from "@backplane/ports";
import type { RequestOptions } from "./bus-port.ts";
import type { Subscriber } from "./routes.ts";

/** A request from its call to its end; `sent` gives it the id that answers name. */
export interface OpenRequest {
  readonly answer: Promise<BusEvent>;
  readonly ended: boolean;
  sent(event: BusEvent): void;
  end(error: Error): void;
}

/** A class, and its accessors with it: one in an object literal would be a hidden class of its own for every request. */
class Pending implements OpenRequest {
  readonly by: Subscriber;
  readonly answer: Promise<BusEvent>;
  ended = false;
  readonly #table: IdTable<Pending>;
  readonly #kind: string;
  readonly #options: RequestOptions;
  readonly #over: (error: Error) => void;
  readonly #timer: Timer;
  readonly #abort: (() => void) | null;
  #request: BusEvent | null = null;
  #resolve!: (answer: BusEvent) => void;
  #reject!: (error: Error) => void;

  constructor(
    table: IdTable<Pending>,
    clock: Clock,
    by: Subscriber,
    kind: string,
    options: RequestOptions,
    over: (error: Error) => void,
  ) {
    this.#table = table;
    this.by = by;
    this.#kind = kind;
    this.#options = options;
    this.#over = over;
    this.answer = new Promise((resolve, reject) => {
      this.#resolve = resolve;
      this.#reject = reject;
    });
    this.#timer = clock.after(options.timeout_ms, () => this.#late());
    const { signal } = options;
    this.#abort = signal === undefined ? null : () => this.#aborted();
    if (this.#abort === null) return;
    signal!.addEventListener("abort", this.#abort);
    if (signal!.aborted) this.#aborted();
  }

  sent(event: BusEvent): void {
    this.#request = event;
    this.#table.add(event.id, this);
    this.#options.sent?.(event);
  }

  settle(answer: BusEvent): void {
    this.#leave();
    this.#resolve(answer);
  }

  end(error: Error): void {
    if (this.ended) return;
    this.#leave();
    this.#reject(error);
    this.#over(error);
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

  #late(): void {
    const { timeout_ms } = this.#options;
    this.end(new BackplaneError("timeout", `no answer to ${this.#kind} came within ${timeout_ms} ms`));
  }

  #aborted(): void {
    this.end(new BackplaneError("cancelled", `${this.#kind} was cancelled before an answer came`));
  }

  #leave(): void {
    this.ended = true;
    this.#timer.stop();
    if (this.#abort !== null) this.#options.signal?.removeEventListener("abort", this.#abort);
    if (this.#request !== null) this.#table.delete(this.#request.id);
  }
}

export class Requests {
  readonly #clock: Clock;
  readonly #pending = new IdTable<Pending>();

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  get size(): number {
    return this.#pending.size;
  }

  /** `over` is told when the request ended unanswered, so that one still waiting for its place gives it up. */
  open(by: Subscriber, kind: string, options: RequestOptions, over: (error: Error) => void): OpenRequest {
    return new Pending(this.#pending, this.#clock, by, kind, options, over);
  }

  /** Called for every event when its turn comes. */
  answer(event: BusEvent): void {
    if (this.#pending.size === 0) return;
    const { request_id } = event.payload as { request_id?: unknown };
    if (typeof request_id !== "string") return;
    const pending = this.#pending.get(request_id);
    if (pending?.accepts(event) === true) pending.settle(event);
  }

  /** Ends what one port asked, or all. */
  endAll(error: Error, by?: Subscriber): void {
    for (const pending of this.#pending.values()) {
      if (by === undefined || pending.by === by) pending.end(error);
    }
  }
}
