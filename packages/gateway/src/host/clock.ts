import type { Clock } from "@backplane/ports";

const MAX_TIMEOUT_MS = 2_147_483_647;

/** The clock of the system. setTimeout overflows at 24.8 days, so longer timers run in several steps. */
export function systemClock(): Clock {
  return {
    now: () => Date.now(),
    monotonic: () => performance.now(),
    after(ms, run) {
      let remaining = ms;
      let timer: NodeJS.Timeout;
      const step = () => {
        const wait = Math.min(remaining, MAX_TIMEOUT_MS);
        remaining -= wait;
        timer = setTimeout(remaining > 0 ? step : run, wait);
      };
      step();
      return { stop: () => clearTimeout(timer) };
    },
  };
}
