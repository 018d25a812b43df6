/**
 * Handlers that run, in one list with one timer. A sweep looks for those past their deadline; there is no timer per
 * handler, and the timer stops when nothing runs. A flight is used again once its handler ended in time.
 */

import type { BusEvent } from "@backplane/contract";
import type { Clock, Timer } from "@backplane/ports";
import type { Subscription } from "./routes.ts";
import type { SessionQueue } from "./session-queue.ts";

const SPARE_FLIGHTS = 1_024;

export type Landing = (flight: Flight, failed: boolean, error: unknown) => void;

export class Flight {
  subscription: Subscription | null = null;
  event: BusEvent | null = null;
  /** The line whose worker waits for this handler; null when none does. */
  queue: SessionQueue | null = null;
  deadline = 0;
  limit_ms = 0;
  timed_out = false;
  prev: Flight | null = null;
  next: Flight | null = null;
  readonly ok: () => void;
  readonly fail: (error: unknown) => void;

  constructor(land: Landing) {
    this.ok = () => land(this, false, undefined);
    this.fail = (error) => land(this, true, error);
  }
}

export class Flights {
  readonly #clock: Clock;
  readonly #sweep_ms: number;
  readonly #land: Landing;
  readonly #late: (flight: Flight) => void;
  readonly #spare: Flight[] = [];
  #first: Flight | null = null;
  #running = 0;
  #timer: Timer | null = null;
  /** Read at a sweep and when the timer starts, so never older than one sweep. */
  #now = 0;

  constructor(clock: Clock, sweep_ms: number, land: Landing, late: (flight: Flight) => void) {
    this.#clock = clock;
    this.#sweep_ms = sweep_ms;
    this.#land = land;
    this.#late = late;
  }

  get running(): number {
    return this.#running;
  }

  open(subscription: Subscription, event: BusEvent, queue: SessionQueue | null, limit_ms: number): Flight {
    if (this.#timer === null) this.#arm();
    const flight = this.#spare.pop() ?? new Flight(this.#land);
    flight.subscription = subscription;
    flight.event = event;
    flight.queue = queue;
    flight.limit_ms = limit_ms;
    // `#now` may be one sweep old, hence the allowance: a handler is never cut short.
    flight.deadline = this.#now + this.#sweep_ms + limit_ms;
    flight.next = this.#first;
    if (this.#first !== null) this.#first.prev = flight;
    this.#first = flight;
    this.#running++;
    return flight;
  }

  /** The handler ended, in time or not. */
  close(flight: Flight): void {
    if (!flight.timed_out) this.#unlink(flight);
    flight.subscription = null;
    flight.event = null;
    flight.queue = null;
    if (!flight.timed_out && this.#spare.length < SPARE_FLIGHTS) this.#spare.push(flight);
  }

  stop(): void {
    this.#timer?.stop();
    this.#timer = null;
  }

  #arm(): void {
    this.#now = this.#clock.monotonic();
    this.#timer = this.#clock.after(this.#sweep_ms, () => this.#sweep());
  }

  #sweep(): void {
    this.#timer = null;
    if (this.#first === null) return;
    this.#arm();
    const late: Flight[] = [];
    for (let flight: Flight | null = this.#first; flight !== null; flight = flight.next) {
      if (flight.deadline <= this.#now) late.push(flight);
    }
    // Newest first in the list; told oldest first.
    for (const flight of late.reverse()) {
      this.#unlink(flight);
      flight.timed_out = true;
      this.#late(flight);
    }
  }

  #unlink(flight: Flight): void {
    if (flight.prev !== null) flight.prev.next = flight.next;
    else this.#first = flight.next;
    if (flight.next !== null) flight.next.prev = flight.prev;
    flight.prev = null;
    flight.next = null;
    this.#running--;
  }
}
