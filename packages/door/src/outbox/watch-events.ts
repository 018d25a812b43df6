/** Streams the semantic events of one scope. They are read by cursor, so a slow reader needs no buffer. */

import type { SemanticEvent } from "@backplane/contract";
import type { KernelDeps, Scope } from "@backplane/ports";
import { sleep, WakeSignal } from "../node/wake.ts";
import { HOOKS_CONSUMER } from "./dispatcher.ts";

const PAGE_SIZE = 200;
/** Reads again after this time, in case a notification from another node was lost. */
const POLL_MS = 15_000;
/** Batches notifications, because every commit of every tenant sends one. */
const BATCH_MS = 20;

/** Resolves to the seq up to which the outbox is complete. */
export function readEventPosition({ store }: Pick<KernelDeps, "store">): Promise<number> {
  return store.outbox.getCursor(HOOKS_CONSUMER);
}

export async function* watchEvents(
  deps: Pick<KernelDeps, "store" | "clock">,
  scope: Scope,
  after_seq: number,
  stop: AbortSignal,
): AsyncGenerator<SemanticEvent> {
  const { outbox } = deps.store;
  const wake = new WakeSignal();
  const unsubscribe = outbox.onAppended(() => wake.notify());
  let last = after_seq;
  try {
    while (!stop.aborted) {
      // Read before the events: up to this seq the outbox is complete, so a scope without events can skip ahead.
      const complete_up_to = await readEventPosition(deps);
      const events = await outbox.read(last, PAGE_SIZE, scope);
      for (const { from_hook: _from_hook, ...event } of events) {
        last = event.seq;
        yield event;
        if (stop.aborted) return;
      }
      if (events.length > 0) continue;
      last = Math.max(last, complete_up_to);
      const woken = new AbortController();
      await Promise.race([wake.wait(), sleep(deps.clock, POLL_MS, AbortSignal.any([stop, woken.signal]))]);
      woken.abort();
      if (!stop.aborted) await sleep(deps.clock, BATCH_MS, stop);
    }
  } finally {
    unsubscribe();
  }
}
