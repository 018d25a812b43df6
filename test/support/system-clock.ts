/** Real time, as short waits need it; the gateway's own also walks the long ones. */
import type { Clock } from "@backplane/ports";

export const systemClock: Clock = {
  now: () => Date.now(),
  monotonic: () => performance.now(),
  after(ms, run) {
    const timer = setTimeout(run, ms);
    return { stop: () => clearTimeout(timer) };
  },
};
