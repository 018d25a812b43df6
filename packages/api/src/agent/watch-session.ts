/**
 * A session's fan-out as something to iterate over, for streams. What waits here is what the fan-out counts: a reader
 * that is too slow is cut off by it and comes back with the last id that it has.
 */
import { FANOUT_LIMITS } from "@backplane/contract";
import type { Caller, Clock, Fanout, SessionRef, Timer, Watched } from "@backplane/kernel";

export interface SessionWatch {
  /** Ends when the kernel ends the connection or `stop` says so. To be read once. */
  items(stop: AbortSignal): AsyncGenerator<Watched>;
  close(): void;
}

export async function watchSession(
  deps: { fanout: Fanout; clock: Clock },
  caller: Caller,
  ref: SessionRef,
  since_entry: number | null,
): Promise<SessionWatch> {
  const queue: Watched[] = [];
  let waiting = 0;
  let ended = false;
  let wake = () => {};
  const emptied: (() => void)[] = [];
  const letGo = () => {
    for (const resolve of emptied.splice(0)) resolve();
  };
  const end = () => {
    ended = true;
    wake();
    letGo();
  };
  const attachment = await deps.fanout.attach(caller, ref, {
    since_entry,
    adapter_id: "sse",
    send(watched) {
      queue.push(watched);
      waiting += watched.frame.length;
      wake();
      return waiting;
    },
    drained: () =>
      waiting === 0 || ended ? Promise.resolve() : new Promise<void>((resolve) => void emptied.push(resolve)),
    ended: end,
  });

  // Nobody beats a heart over SSE: the open response is the sign of life.
  let timer: Timer;
  const beat = () => {
    attachment.heartbeat();
    timer = deps.clock.after(FANOUT_LIMITS.heartbeat_ms / 3, beat);
  };
  beat();

  return {
    async *items(stop) {
      const stopped = () => wake();
      stop.addEventListener("abort", stopped);
      try {
        while (!stop.aborted) {
          const next = queue.shift();
          if (next !== undefined) {
            yield next;
            waiting -= next.frame.length;
            if (waiting === 0) letGo();
            continue;
          }
          if (ended) return;
          await new Promise<void>((resolve) => {
            wake = resolve;
          });
        }
      } finally {
        stop.removeEventListener("abort", stopped);
      }
    },
    close() {
      timer.stop();
      attachment.detach("client_close");
      end();
    },
  };
}
