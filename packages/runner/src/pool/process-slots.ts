/** A bounded number of processes; who comes when all are taken waits in line. */
import { BackplaneError } from "@backplane/contract";

export class Slots {
  readonly #max: number;
  readonly #maxWaiting: number;
  readonly #line = new Set<() => void>();
  #taken = 0;

  constructor(max: number, maxWaiting: number) {
    this.#max = max;
    this.#maxWaiting = maxWaiting;
  }

  get waiting(): number {
    return this.#line.size;
  }

  get free(): boolean {
    return this.#taken < this.#max && this.#line.size === 0;
  }

  /** True: taken at once. */
  tryTake(): boolean {
    if (!this.free) return false;
    this.#taken++;
    return true;
  }

  /** Resolves with true when a slot is ours, with false when `leave` was called before. */
  take(onLeave: (leave: () => void) => void): Promise<boolean> {
    if (this.#line.size >= this.#maxWaiting) {
      throw new BackplaneError("request.overloaded", "Too many calls wait for a plugin process already.");
    }
    return new Promise((resolve) => {
      const grant = () => resolve(true);
      this.#line.add(grant);
      onLeave(() => {
        if (this.#line.delete(grant)) resolve(false);
      });
    });
  }

  release(): void {
    const [next] = this.#line;
    if (next === undefined) this.#taken--;
    else {
      this.#line.delete(next);
      next();
    }
  }
}
