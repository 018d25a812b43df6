/**
 * Settles calls in a later event-loop turn than the one that read their answers, so that stderr which arrived
 * together with an answer is part of the record. A turn settles calls for a few milliseconds at most and leaves the
 * rest to the next turn.
 */
import type { Clock } from "@backplane/ports";

const TURN_MS = 8;

export class SettleQueue {
  readonly #clock: Clock;
  #queue: (() => void)[] = [];
  #scheduled = false;

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  push(settle: () => void): void {
    this.#queue.push(settle);
    if (this.#scheduled) return;
    this.#scheduled = true;
    setImmediate(() => this.#run());
  }

  #run(): void {
    const queue = this.#queue;
    this.#queue = [];
    const until = this.#clock.monotonic() + TURN_MS;
    let done = 0;
    while (done < queue.length && (done === 0 || this.#clock.monotonic() < until)) queue[done++]!();
    if (done < queue.length) this.#queue = queue.slice(done).concat(this.#queue);
    this.#scheduled = this.#queue.length > 0;
    if (this.#scheduled) setImmediate(() => this.#run());
  }
}
