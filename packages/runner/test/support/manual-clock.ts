import type { Clock } from "@backplane/ports";

/** A clock that only moves when the test advances it. */
export class ManualClock implements Clock {
  #time = 0;
  readonly #timers = new Set<{ at: number; run: () => void }>();
  /** All timers that were ever set. */
  timers_set = 0;

  now(): number {
    return 1_800_000_000_000 + this.#time;
  }

  monotonic(): number {
    return this.#time;
  }

  after(ms: number, run: () => void): { stop: () => void } {
    const timer = { at: this.#time + ms, run };
    this.#timers.add(timer);
    this.timers_set++;
    return { stop: () => this.#timers.delete(timer) };
  }

  get pending(): number {
    return this.#timers.size;
  }

  advance(ms: number): void {
    const end = this.#time + ms;
    for (;;) {
      const due = [...this.#timers].filter((timer) => timer.at <= end).sort((a, b) => a.at - b.at)[0];
      if (due === undefined) break;
      this.#timers.delete(due);
      this.#time = Math.max(this.#time, due.at);
      due.run();
    }
    this.#time = end;
  }
}
