/**
 * Retries work in flight while the store is unavailable, for a bounded time, instead of failing it. Safe because a
 * write that throws `store.unavailable` has written nothing. New requests do not wait; they fail with that error.
 */

import { codeOf } from "@backplane/contract";
import type { Clock, Logger } from "@backplane/ports";
import { sleep } from "./wake.ts";

const INITIAL_PAUSE_MS = 50;
const MAX_PAUSE_MS = 1_000;

export class StoreWait {
  readonly #clock: Clock;
  readonly #log: Pick<Logger, "warn">;
  readonly #max_wait_ms: number;

  constructor(clock: Clock, log: Pick<Logger, "warn">, max_wait_ms: number) {
    this.#clock = clock;
    this.#log = log;
    this.#max_wait_ms = max_wait_ms;
  }

  get max_wait_ms(): number {
    return this.#max_wait_ms;
  }

  /** Throws what `work` throws; `store.unavailable` only after the wait or when the signal is aborted. */
  async run<T>(
    label: string,
    work: () => Promise<T> | T,
    signal: AbortSignal = NEVER,
    max_wait_ms = this.#max_wait_ms,
  ): Promise<T> {
    let end: number | null = null;
    for (let pause = INITIAL_PAUSE_MS; ; pause = Math.min(pause * 2, MAX_PAUSE_MS)) {
      try {
        return await work();
      } catch (error) {
        if (codeOf(error) !== "store.unavailable" || signal.aborted) throw error;
        if (end === null) this.#log.warn({ err: error }, `${label} is waiting for the store`);
        end ??= this.#clock.monotonic() + max_wait_ms;
        if (this.#clock.monotonic() + pause > end) throw error;
        await sleep(this.#clock, pause, signal);
      }
    }
  }
}

const NEVER = new AbortController().signal;
