/** So many in any window of time, per key; a key that is quiet for a window costs no memory. */
import type { Clock } from "@backplane/ports";

export class Quota {
  readonly #clock: Pick<Clock, "monotonic">;
  readonly #count: number;
  readonly #window_ms: number;
  readonly #taken = new Map<string, number[]>();

  constructor(clock: Pick<Clock, "monotonic">, count: number, window_ms: number) {
    this.#clock = clock;
    this.#count = count;
    this.#window_ms = window_ms;
  }

  take(key: string): boolean {
    const now = this.#clock.monotonic();
    const since = now - this.#window_ms;
    for (const [other, times] of this.#taken) {
      // In the order of their last use: the first that is still fresh ends the search.
      if ((times.at(-1) as number) > since) break;
      this.#taken.delete(other);
    }
    const times = (this.#taken.get(key) ?? []).filter((at) => at > since);
    if (times.length >= this.#count) return false;
    this.#taken.delete(key);
    this.#taken.set(key, [...times, now]);
    return true;
  }
}
