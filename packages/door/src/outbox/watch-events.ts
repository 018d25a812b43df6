/** Semantic events of one scope, from a seq on, then live; read by cursor, so a slow reader costs nothing. */

import type { SemanticEvent } from "@backplane/contract";
import type { KernelDeps, Scope } from "@backplane/ports";
import { nextWake, Wake } from "../node/wake.ts";
import { HOOKS_CONSUMER } from "./dispatcher.ts";

const PAGE = 200;
/** In case a notification of another node was lost. */
const LOOK_AGAIN_MS = 15_000;
/** Every commit of every tenant rings, so under load one look serves many. */
const GATHER_MS = 20;

export async function* watchEvents(
  deps: Pick<KernelDeps, "store" | "clock">,
  scope: Scope,
  after_seq: number,
  stop: AbortSignal,
): AsyncGenerator<SemanticEvent> {
  const { outbox } = deps.store;
  const wake = new Wake();
  const unsubscribe = outbox.onAppended(() => wake.ring());
  let last = after_seq;
  try {
    while (!stop.aborted) {
      // Read first: what the dispatcher has passed is complete, so a quiet scope need not look at it again.
      const passed = await outbox.cursor(HOOKS_CONSUMER);
      const events = await outbox.read(last, PAGE, scope);
      for (const { from_hook: _from_hook, ...event } of events) {
        last = event.seq;
        yield event;
        if (stop.aborted) return;
      }
      if (events.length > 0) continue;
      last = Math.max(last, passed);
      const rested = new AbortController();
      await Promise.race([
        wake.rung(),
        nextWake(deps.clock, LOOK_AGAIN_MS, AbortSignal.any([stop, rested.signal])),
      ]);
      rested.abort();
      if (!stop.aborted) await nextWake(deps.clock, GATHER_MS, stop);
    }
  } finally {
    unsubscribe();
  }
}
