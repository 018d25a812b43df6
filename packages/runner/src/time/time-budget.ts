export interface TimeSample {
  /** Monotonic, in milliseconds. */
  at: number;
  /** Processor time of the process and its descendants; null if it is unknown. */
  cpu_ms: number | null;
  /** One of its threads is runnable, waits for a disk or is stopped. */
  held_up: boolean;
  /** Runnable threads of the machine per processor; at least 1. */
  load: number;
}

/** The sample with which the next one is compared. */
type BaseSample = Pick<TimeSample, "at" | "cpu_ms">;

/** `idle`: it mostly waited. `busy`: it mostly computed. `starved`: neither, but the upper bound was reached. */
export type TimeBudgetVerdict = "idle" | "busy" | "starved";

/** A process that uses less than this share of a processor counts as waiting. */
const ACTIVE_SHARE = 0.1;
/** The load slows down what a waiting process waits for, so its wait is scaled, up to this factor. */
const MAX_WAIT_SCALE = 4;
const CAP_FACTOR = 10;
const MAX_CAP_MS = 120_000;

/**
 * Measures how much of a time limit a process has used itself, because wall time would penalize it on a busy machine. A
 * process that is runnable but not scheduled, waits for a disk or is stopped is charged only its processor time. A
 * process that waits for something else is charged the wait, divided by the load, because the load slows that down as
 * well. In all cases there is also an upper bound in wall time, which grows with the load.
 */
export class TimeBudget {
  readonly #limit: number;
  readonly #interval: number;
  readonly #started_at: number;
  #last: BaseSample;
  #idle = 0;
  #busy = 0;

  constructor(limit_ms: number, interval_ms: number, first: BaseSample) {
    this.#limit = limit_ms;
    this.#interval = interval_ms;
    this.#started_at = first.at;
    this.#last = first;
  }

  /** Returns the verdict when the time has run out, otherwise null. */
  add(sample: TimeSample): TimeBudgetVerdict | null {
    const { cpu_ms, load } = sample;
    const passed = sample.at - this.#last.at;
    const used = cpu_ms === null ? 0 : Math.max(0, cpu_ms - (this.#last.cpu_ms ?? cpu_ms));
    this.#last = sample;
    if (cpu_ms !== null && (sample.held_up || used > passed * ACTIVE_SHARE)) {
      this.#busy += Math.min(used, passed);
    } else {
      // A late sample means that the gateway was not scheduled either.
      const scale = cpu_ms === null ? load : Math.min(load, MAX_WAIT_SCALE);
      this.#idle += Math.min(passed, this.#interval) / scale;
    }
    if (this.#idle + this.#busy >= this.#limit) return this.#idle >= this.#busy ? "idle" : "busy";
    return sample.at - this.#started_at >= this.#cap(load) ? "starved" : null;
  }

  #cap(load: number): number {
    return Math.max(this.#limit * 2, Math.min(this.#limit * CAP_FACTOR * load, MAX_CAP_MS));
  }
}
