import type { Clock, Timer } from "@backplane/ports";

/** A delegated token expires with its call, and connections opened with it must close within a second. */
const INTERVAL_MS = 400;

/** Calls `isValid` at an interval and `end` once, when the credential is no longer valid. */
export function watchCredential(clock: Clock, isValid: () => Promise<boolean>, end: () => void): Timer {
  let timer: Timer;
  let stopped = false;
  const schedule = () => {
    timer = clock.after(INTERVAL_MS, () => {
      void isValid().then((valid) => {
        if (stopped) return;
        if (valid) schedule();
        else end();
      });
    });
  };
  schedule();
  return {
    stop() {
      stopped = true;
      timer.stop();
    },
  };
}
