/**
 * Runs the periodic duties of the kernel: they renew leases of slots, deliveries and the dispatcher, apply cancel
 * requests, recover the work of dead nodes and start the retention sweep. Duties run one after the other; a duty that
 * fails is logged and runs again at the next beat. An idle kernel has no other timer, except the timer of its
 * `NodeLease` if the store is shared.
 */
import type { Clock, Logger, Timer } from "@backplane/ports";

interface Duty {
  name: string;
  run(): Promise<unknown>;
}

export class Heartbeat {
  readonly #clock: Clock;
  readonly #log: Logger;
  readonly #interval_ms: number;
  readonly #duties: readonly Duty[];
  #timer: Timer | null = null;
  #beating: Promise<void> | null = null;
  #stopped = true;

  constructor(clock: Clock, log: Logger, interval_ms: number, duties: readonly Duty[]) {
    this.#clock = clock;
    this.#log = log;
    this.#interval_ms = interval_ms;
    this.#duties = duties;
  }

  start(): void {
    this.#stopped = false;
    this.#schedule();
  }

  async stop(): Promise<void> {
    this.#stopped = true;
    this.#timer?.stop();
    await this.#beating;
  }

  #schedule(): void {
    if (this.#stopped) return;
    this.#timer = this.#clock.after(this.#interval_ms, () => {
      this.#beating = this.#beat().finally(() => {
        this.#beating = null;
        this.#schedule();
      });
    });
  }

  async #beat(): Promise<void> {
    for (const duty of this.#duties) {
      if (this.#stopped) return;
      try {
        await duty.run();
      } catch (error) {
        this.#log.warn({ err: error, duty: duty.name }, "heartbeat duty failed; retrying at the next beat");
      }
    }
  }
}
