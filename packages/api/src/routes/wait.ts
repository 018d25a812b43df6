/** Holding the line: the ended record, or the record as it is when the time is over. */
import { type Invocation, isTerminal } from "@backplane/contract";
import type { Caller, Clock, Kernel, Ticket } from "@backplane/kernel";

export interface Wait {
  /** For a call that was started here. */
  ticket(caller: Caller, ticket: Ticket, wait_ms: number): Promise<Invocation>;
  /** For any call. */
  row(caller: Caller, id: string, wait_ms: number): Promise<Invocation>;
}

export function createWait({ kernel, clock }: { kernel: Kernel; clock: Clock }): Wait {
  return {
    async ticket(caller, ticket, wait_ms) {
      if (wait_ms === 0) return ticket.invocation;
      const ended = await endedWithin(ticket.settled, wait_ms);
      return ended ?? kernel.invocations.get(caller, ticket.id);
    },
    async row(caller, id, wait_ms) {
      const now = await kernel.invocations.get(caller, id);
      if (wait_ms === 0 || isTerminal(now.status)) return now;
      const stop = new AbortController();
      const timer = clock.after(wait_ms, () => stop.abort());
      try {
        for await (const item of kernel.invocations.watch(caller, id, Number.MAX_SAFE_INTEGER, stop.signal))
          if ("settled" in item) return item.settled;
      } finally {
        timer.stop();
        stop.abort();
      }
      return kernel.invocations.get(caller, id);
    },
  };

  function endedWithin(settled: Promise<Invocation>, wait_ms: number): Promise<Invocation | null> {
    return new Promise((resolve) => {
      const timer = clock.after(wait_ms, () => resolve(null));
      void settled.then((ended) => {
        timer.stop();
        resolve(ended);
      });
    });
  }
}
