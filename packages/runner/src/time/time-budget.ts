/**
 * How much of a time limit a process has used up by itself. Wall time would punish it for a busy machine: a process that
 * can run and is not let to, waits for a disk or is stopped is charged only the processor time that it got. One that
 * waits for something of its own is charged that wait, less where the machine is busy, since whoever it waits for is
 * slow there too. An upper bound of wall time, which grows with the load, holds for everybody.
 */
export interface TimeSample {
  /** Monotonic, in milliseconds. */
  at: number;
  /** Processor time of the process and its children so far; null: not known here. */
  cpu_ms: number | null;
  /** One of its threads can run, waits for a disk or is stopped. */
  held_up: boolean;
  /** Runnable threads of the machine for each processor; at least 1. */
  load: number;
}

/** What later samples are compared with. */
type FirstSample = Pick<TimeSample, "at" | "cpu_ms">;

/** `idle`: it mostly waited. `busy`: it mostly computed. `starved`: neither, but the upper bound is reached. */
export type Verdict = "idle" | "busy" | "starved";

/** A process that takes less than this share of a processor is waiting. */
const ACTIVE_SHARE = 0.1;
/** A process that only waits is not held up by the machine, but whoever it waits for may be. */
const MAX_WAIT_SCALE = 4;
const CAP_FACTOR = 10;
const LONGEST_CAP_MS = 120_000;

export class TimeBudget {
  readonly #limit: number;
  readonly #interval: number;
  readonly #begun: number;
  #last: FirstSample;
  #idle = 0;
  #busy = 0;

  constructor(limit_ms: number, interval_ms: number, first: FirstSample) {
    this.#limit = limit_ms;
    this.#interval = interval_ms;
    this.#begun = first.at;
    this.#last = first;
  }

  /** Null: there is time left. */
  add(sample: TimeSample): Verdict | null {
    const { cpu_ms, load } = sample;
    const passed = sample.at - this.#last.at;
    const used = cpu_ms === null ? 0 : Math.max(0, cpu_ms - (this.#last.cpu_ms ?? cpu_ms));
    this.#last = sample;
    if (cpu_ms !== null && (sample.held_up || used > passed * ACTIVE_SHARE)) {
      this.#busy += Math.min(used, passed);
    } else {
      // A sample that comes late tells that this process was not let to run either.
      const scale = cpu_ms === null ? load : Math.min(load, MAX_WAIT_SCALE);
      this.#idle += Math.min(passed, this.#interval) / scale;
    }
    if (this.#idle + this.#busy >= this.#limit) return this.#idle >= this.#busy ? "idle" : "busy";
    return sample.at - this.#begun >= this.#cap(load) ? "starved" : null;
  }

  #cap(load: number): number {
    return Math.max(this.#limit * 2, Math.min(this.#limit * CAP_FACTOR * load, LONGEST_CAP_MS));
  }
}
