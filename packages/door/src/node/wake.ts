import type { Clock } from "@backplane/ports";

/** Wakes one waiter. A notification without a waiter is remembered, so that none is lost. */
export class WakeSignal {
  #notified = false;
  #waiter: (() => void) | null = null;

  notify(): void {
    const waiter = this.#waiter;
    this.#waiter = null;
    if (waiter === null) this.#notified = true;
    else waiter();
  }

  wait(): Promise<void> {
    if (this.#notified) {
      this.#notified = false;
      return Promise.resolve();
    }
    return new Promise((resolve) => {
      this.#waiter = resolve;
    });
  }
}

/** Resolves after `ms` or when `stop` is aborted, whichever comes first. */
export function sleep(clock: Clock, ms: number, stop: AbortSignal): Promise<void> {
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
