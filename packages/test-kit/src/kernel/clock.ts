/** Real time, except that the wall clock can jump and all timers can stop, as in a killed process. */
import type { Clock, Timer } from "@backplane/ports";

export class TestClock implements Clock {
  wall_offset = 0;
  monotonic_offset = 0;
  #halted = false;
  readonly #timers = new Set<NodeJS.Timeout>();

  get timers(): number {
    return this.#timers.size;
  }

  now(): number {
    return Math.floor(Date.now() + this.wall_offset);
  }

  monotonic(): number {
    return performance.now() + this.monotonic_offset;
  }

  after(ms: number, run: () => void): Timer {
    if (this.#halted) return { stop: () => {} };
    const timer = setTimeout(() => {
      this.#timers.delete(timer);
      run();
    }, ms);
    this.#timers.add(timer);
    return {
      stop: () => {
        clearTimeout(timer);
        this.#timers.delete(timer);
      },
    };
  }

  halt(): void {
    this.#halted = true;
    for (const timer of this.#timers) clearTimeout(timer);
    this.#timers.clear();
  }
}
