/** Deadlines use `monotonic`, timestamps of records use `now`. */
export interface Clock {
  /** Wall-clock time in milliseconds since the epoch; may jump. */
  now(): number;
  /** Milliseconds since an arbitrary start; never jumps. */
  monotonic(): number;
  /** Calls `run` once after `ms` of monotonic time. */
  after(ms: number, run: () => void): Timer;
}

export interface Timer {
  stop(): void;
}
