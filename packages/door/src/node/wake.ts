/** A bell that remembers one ring, so that nobody sleeps through what came while it was busy. */
import type { Clock } from "@backplane/ports";

export class Wake {
  #rung = false;
  #sleeper: (() => void) | null = null;

  ring(): void {
    const sleeper = this.#sleeper;
    this.#sleeper = null;
    if (sleeper === null) this.#rung = true;
    else sleeper();
  }

  rung(): Promise<void> {
    if (this.#rung) {
      this.#rung = false;
      return Promise.resolve();
    }
    return new Promise((resolve) => {
      this.#sleeper = resolve;
    });
  }
}

/** After `ms` or at the abort, whichever is first. */
export function nextWake(clock: Clock, ms: number, stop: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    const wake = () => {
      timer.stop();
      stop.removeEventListener("abort", wake);
      resolve();
    };
    const timer = clock.after(ms, wake);
    stop.addEventListener("abort", wake);
    if (stop.aborted) wake();
  });
}
