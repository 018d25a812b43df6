/** Real time for short waits; unlike the gateway's clock it does not split long ones. */
import type { Clock } from "@backplane/ports";

export const realTimeClock: Clock = {
  now: () => Date.now(),
  monotonic: () => performance.now(),
  after(ms, run) {
    const timer = setTimeout(run, ms);
    return { stop: () => clearTimeout(timer) };
  },
};
