/**
 * The fan-out of a session as an async iterator, for event streams. It reports to the fan-out how much is queued here,
 * and the fan-out disconnects a reader that is too slow; the client then reconnects with the last id that it has.
 */
import type { Caller, Clock, Fanout, SessionRef, Timer, WatchedEvent } from "@backplane/ports";

export interface SessionWatch {
  /** Ends when the kernel ends the connection or `stop` is aborted. May be iterated once. */
  items(stop: AbortSignal): AsyncGenerator<WatchedEvent>;
  close(): void;
}

export async function watchSession(
  deps: { fanout: Fanout; clock: Clock },
  caller: Caller,
  ref: SessionRef,
  since_entry: number | null,
): Promise<SessionWatch> {
  const queue: WatchedEvent[] = [];
  let queued_chars = 0;
  let ended = false;
  let wake = () => {};
  const drain_waiters: (() => void)[] = [];
  const resolveDrained = () => {
    for (const resolve of drain_waiters.splice(0)) resolve();
  };
  const end = () => {
    ended = true;
    wake();
    resolveDrained();
  };
  const attachment = await deps.fanout.attach(caller, ref, {
    since_entry,
    adapter_id: "sse",
    send(watched) {
      queue.push(watched);
      queued_chars += watched.frame.length;
      wake();
      return queued_chars;
    },
    drained: () =>
      queued_chars === 0 || ended
        ? Promise.resolve()
        : new Promise<void>((resolve) => void drain_waiters.push(resolve)),
    ended: end,
  });

  // A client cannot send heartbeats over SSE; the open response counts as one.
  let timer: Timer;
  const sendHeartbeat = () => {
    attachment.heartbeat();
    timer = deps.clock.after(deps.fanout.heartbeat_ms / 3, sendHeartbeat);
  };
  sendHeartbeat();

  return {
    async *items(stop) {
      const onAbort = () => wake();
      stop.addEventListener("abort", onAbort);
      try {
        while (!stop.aborted) {
          const next = queue.shift();
          if (next !== undefined) {
            yield next;
            queued_chars -= next.frame.length;
            if (queued_chars === 0) resolveDrained();
            continue;
          }
          if (ended) return;
          await new Promise<void>((resolve) => {
            wake = resolve;
          });
        }
      } finally {
        stop.removeEventListener("abort", onAbort);
      }
    },
    close() {
      timer.stop();
      attachment.detach("client_close");
      end();
    },
  };
}
