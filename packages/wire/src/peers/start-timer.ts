/** Calls `run` once after `ms`. Returns a function that cancels the timer. */
export type StartTimer = (ms: number, run: () => void) => () => void;

export const startTimeout: StartTimer = (ms, run) => {
  const timer = setTimeout(run, ms);
  return () => clearTimeout(timer);
};
