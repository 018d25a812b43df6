/** Limits the number of processes. Callers queue when all slots are taken. */
import { BackplaneError } from "@backplane/contract";

export class ProcessSlots {
  readonly #max: number;
  readonly #max_waiting: number;
  readonly #queue = new Set<() => void>();
  #used = 0;

  constructor(max: number, max_waiting: number) {
    this.#max = max;
    this.#max_waiting = max_waiting;
  }

  get waiting(): number {
    return this.#queue.size;
  }

  get hasFree(): boolean {
    return this.#used < this.#max && this.#queue.size === 0;
  }

  /** Takes a free slot without waiting. */
  tryTake(): boolean {
    if (!this.hasFree) return false;
    this.#used++;
    return true;
  }

  /**
   * Queues for a slot that `tryTake` did not get. Resolves to true when a slot was taken, and to false if `leave` was
   * called first. Throws `request.overloaded` if the queue is full.
   */
  take(onLeave: (leave: () => void) => void): Promise<boolean> {
    if (this.#queue.size >= this.#max_waiting) {
      throw new BackplaneError(
        "request.overloaded",
        "Too many calls are already waiting for a plugin process.",
      );
    }
    return new Promise((resolve) => {
      const passSlot = () => resolve(true);
      this.#queue.add(passSlot);
      onLeave(() => {
        if (this.#queue.delete(passSlot)) resolve(false);
      });
    });
  }

  release(): void {
    const [next] = this.#queue;
    if (next === undefined) this.#used--;
    else {
      this.#queue.delete(next);
      next();
    }
  }
}
