/** Deadlines use `monotonic`, timestamps of records use `now`. */
export interface Clock {
  /** Wall clock, ms since the epoch. May jump. */
  now(): number;
  /** Never jumps, ms from an arbitrary start. */
  monotonic(): number;
  /** Calls back once after `ms` of monotonic time. */
  after(ms: number, run: () => void): Timer;
}

export interface Timer {
  stop(): void;
}
