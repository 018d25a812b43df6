/**
 * All the runner's deadlines behind one timer: a heap in which every entry knows its place, so that setting
 * and clearing cost O(log n) and a warm call makes no timer of its own. Invariant: the timer is armed for no
 * later than the first entry, and not at all when there is none.
 */
import type { Clock, Timer } from "@backplane/ports";

/** Beyond this a platform timer fires at once; waking up early costs nothing. */
const LONGEST_TIMER_MS = 2 ** 31 - 1;

export interface Deadline {
  at: number;
  /** Place in the heap; -1 when it is not set. */
  index: number;
  run: () => void;
}

export class Deadlines {
  readonly #clock: Clock;
  readonly #heap: Deadline[] = [];
  #timer: Timer | null = null;
  #armedFor = 0;

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  get size(): number {
    return this.#heap.length;
  }

  /** On the clock that the deadlines go by. */
  now(): number {
    return this.#clock.monotonic();
  }

  set(delay_ms: number, run: () => void): Deadline {
    const entry = { at: this.#clock.monotonic() + delay_ms, index: this.#heap.length, run };
    this.#heap.push(entry);
    this.#rise(entry);
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
    if (this.#timer !== null && this.#armedFor <= first.at) return;
    this.#disarm();
    this.#armedFor = first.at;
    const delay = Math.min(Math.max(0, first.at - this.#clock.monotonic()), LONGEST_TIMER_MS);
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
    this.#rise(last);
    this.#sink(last);
  }

  #rise(entry: Deadline): void {
    while (entry.index > 0) {
      const parent = this.#heap[(entry.index - 1) >> 1]!;
      if (parent.at <= entry.at) return;
      this.#swap(parent, entry);
    }
  }

  #sink(entry: Deadline): void {
    for (;;) {
      const left = this.#heap[entry.index * 2 + 1];
      const right = this.#heap[entry.index * 2 + 2];
      const child = right !== undefined && left !== undefined && right.at < left.at ? right : left;
      if (child === undefined || child.at >= entry.at) return;
      this.#swap(entry, child);
    }
  }

  #swap(upper: Deadline, lower: Deadline): void {
    const place = upper.index;
    upper.index = lower.index;
    lower.index = place;
    this.#heap[upper.index] = upper;
    this.#heap[lower.index] = lower;
  }
}
