/**
 * All deadlines of the runner on a single timer: a binary heap whose entries store their position, so that setting and
 * clearing take O(log n) and a warm call creates no timer (benchmark runner.warm-call). Invariant: the timer fires no
 * later than the first entry, and is not set without entries.
 */
import type { Clock, Timer } from "@backplane/ports";

/** Delays are capped, because Node fires longer timers immediately. A timer that fires early is set again. */
const MAX_TIMER_MS = 2 ** 31 - 1;

export interface Deadline {
  at: number;
  /** Position in the heap; -1 if it is not set. */
  index: number;
  run: () => void;
}

export class Deadlines {
  readonly #clock: Clock;
  readonly #heap: Deadline[] = [];
  #timer: Timer | null = null;
  #armed_for = 0;

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  get size(): number {
    return this.#heap.length;
  }

  /** The current time on the clock of the deadlines. */
  now(): number {
    return this.#clock.monotonic();
  }

  set(delay_ms: number, run: () => void): Deadline {
    const entry = { at: this.#clock.monotonic() + delay_ms, index: this.#heap.length, run };
    this.#heap.push(entry);
    this.#siftUp(entry);
    this.#arm();
    return entry;
  }

  clear(entry: Deadline): void {
    if (entry.index < 0) return;
    this.#remove(entry);
    if (this.#heap.length === 0) this.#disarm();
  }

  #arm(): void {
    const first = this.#heap[0]!;
    if (this.#timer !== null && this.#armed_for <= first.at) return;
    this.#disarm();
    this.#armed_for = first.at;
    const delay = Math.min(Math.max(0, first.at - this.#clock.monotonic()), MAX_TIMER_MS);
    this.#timer = this.#clock.after(delay, () => this.#fire());
  }

  #disarm(): void {
    this.#timer?.stop();
    this.#timer = null;
  }

  #fire(): void {
    this.#timer = null;
    const now = this.#clock.monotonic();
    while (this.#heap.length > 0 && this.#heap[0]!.at <= now) {
      const due = this.#heap[0]!;
      this.#remove(due);
      due.run();
    }
    if (this.#heap.length > 0) this.#arm();
  }

  #remove(entry: Deadline): void {
    const last = this.#heap.pop()!;
    const index = entry.index;
    entry.index = -1;
    if (last === entry) return;
    last.index = index;
    this.#heap[index] = last;
    this.#siftUp(last);
    this.#siftDown(last);
  }

  #siftUp(entry: Deadline): void {
    while (entry.index > 0) {
      const parent = this.#heap[(entry.index - 1) >> 1]!;
      if (parent.at <= entry.at) return;
      this.#swap(parent, entry);
    }
  }

  #siftDown(entry: Deadline): void {
    for (;;) {
      const left = this.#heap[entry.index * 2 + 1];
      const right = this.#heap[entry.index * 2 + 2];
      const child = right !== undefined && left !== undefined && right.at < left.at ? right : left;
      if (child === undefined || child.at >= entry.at) return;
      this.#swap(entry, child);
    }
  }

  #swap(upper: Deadline, lower: Deadline): void {
    const index = upper.index;
    upper.index = lower.index;
    lower.index = index;
    this.#heap[upper.index] = upper;
    this.#heap[lower.index] = lower;
  }
}
