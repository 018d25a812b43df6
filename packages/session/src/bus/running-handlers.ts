/**
 * Asynchronous handlers in progress. One timer sweeps the list for handlers past their deadline and stops when the
 * list is empty: a timer and a record per handler are measurable in the benchmark bus.dispatch, so a record is reused
 * if its handler ended before the deadline.
 */

import type { BusEvent } from "@backplane/contract";
import type { Clock, Timer } from "@backplane/ports";
import type { BusSubscription } from "./routes.ts";
import type { SessionQueue } from "./session-queue.ts";

const MAX_POOLED = 1_024;

export type OnHandlerSettled = (handler: RunningHandler, failed: boolean, error: unknown) => void;

export class RunningHandler {
  subscription: BusSubscription | null = null;
  event: BusEvent | null = null;
  /** The session queue that waits for this handler; null if the next event does not wait. */
  queue: SessionQueue | null = null;
  deadline = 0;
  limit_ms = 0;
  timed_out = false;
  prev: RunningHandler | null = null;
  next: RunningHandler | null = null;
  readonly resolved: () => void;
  readonly rejected: (error: unknown) => void;

  constructor(onSettled: OnHandlerSettled) {
    this.resolved = () => onSettled(this, false, undefined);
    this.rejected = (error) => onSettled(this, true, error);
  }
}

export class RunningHandlers {
  readonly #clock: Clock;
  readonly #sweep_ms: number;
  readonly #onSettled: OnHandlerSettled;
  readonly #onTimeout: (handler: RunningHandler) => void;
  readonly #pool: RunningHandler[] = [];
  #first: RunningHandler | null = null;
  #size = 0;
  #timer: Timer | null = null;
  /** The time of the last sweep or of the timer's start, so at most one sweep interval old. */
  #now = 0;

  constructor(
    clock: Clock,
    sweep_ms: number,
    onSettled: OnHandlerSettled,
    onTimeout: (handler: RunningHandler) => void,
  ) {
    this.#clock = clock;
    this.#sweep_ms = sweep_ms;
    this.#onSettled = onSettled;
    this.#onTimeout = onTimeout;
  }

  get size(): number {
    return this.#size;
  }

  add(
    subscription: BusSubscription,
    event: BusEvent,
    queue: SessionQueue | null,
    limit_ms: number,
  ): RunningHandler {
    if (this.#timer === null) this.#startTimer();
    const handler = this.#pool.pop() ?? new RunningHandler(this.#onSettled);
    handler.subscription = subscription;
    handler.event = event;
    handler.queue = queue;
    handler.limit_ms = limit_ms;
    // `#now` may be one sweep old; the added interval guarantees the handler its full time.
    handler.deadline = this.#now + this.#sweep_ms + limit_ms;
    handler.next = this.#first;
    if (this.#first !== null) this.#first.prev = handler;
    this.#first = handler;
    this.#size++;
    return handler;
  }

  /** Called when the handler settled, before or after its deadline. */
  remove(handler: RunningHandler): void {
    if (!handler.timed_out) this.#unlink(handler);
    handler.subscription = null;
    handler.event = null;
    handler.queue = null;
    if (!handler.timed_out && this.#pool.length < MAX_POOLED) this.#pool.push(handler);
  }

  stop(): void {
    this.#timer?.stop();
    this.#timer = null;
  }

  #startTimer(): void {
    this.#now = this.#clock.monotonic();
    this.#timer = this.#clock.after(this.#sweep_ms, () => this.#sweep());
  }

  #sweep(): void {
    this.#timer = null;
    if (this.#first === null) return;
    this.#startTimer();
    const expired: RunningHandler[] = [];
    for (let handler: RunningHandler | null = this.#first; handler !== null; handler = handler.next) {
      if (handler.deadline <= this.#now) expired.push(handler);
    }
    // The list starts with the newest handler; timeouts are reported oldest first.
    for (const handler of expired.reverse()) {
      this.#unlink(handler);
      handler.timed_out = true;
      this.#onTimeout(handler);
    }
  }

  #unlink(handler: RunningHandler): void {
    if (handler.prev !== null) handler.prev.next = handler.next;
    else this.#first = handler.next;
    if (handler.next !== null) handler.next.prev = handler.prev;
    handler.prev = null;
    handler.next = null;
    this.#size--;
  }
}
