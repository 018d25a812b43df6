import type { Clock } from "@backplane/ports";
import { realTimeClock } from "@backplane/test-kit/real-time-clock";

interface SkippedTimer {
  at: number;
  run: () => void;
  stop: () => void;
}

/**
 * Real time that a test can advance. A test first waits for the state that it needs and then skips to the deadline, so
 * a slow machine does not matter.
 */
export class SkippingClock implements Clock {
  #skipped = 0;
  readonly #timers = new Set<SkippedTimer>();

  now(): number {
    return realTimeClock.now() + this.#skipped;
  }

  monotonic(): number {
    return realTimeClock.monotonic() + this.#skipped;
  }

  after(ms: number, run: () => void): { stop: () => void } {
    const fire = () => {
      this.#timers.delete(timer);
      run();
    };
    const real = realTimeClock.after(ms, fire);
    const stop = () => {
      real.stop();
      this.#timers.delete(timer);
    };
    const timer: SkippedTimer = { at: this.monotonic() + ms, run, stop };
    this.#timers.add(timer);
    return timer;
  }

  /** Advances the clock and runs the timers that are due. */
  skip(ms: number): void {
    this.#skipped += ms;
    for (const timer of [...this.#timers].filter(({ at }) => at <= this.monotonic())) {
      timer.stop();
      timer.run();
    }
  }
}
