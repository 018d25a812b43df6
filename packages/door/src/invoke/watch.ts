/**
 * Events of one call: what came after `after_seq` from the store, then live, then the settled record; no gap
 * and no double. A watcher that falls behind its bounded queue goes back to reading the store, so it never
 * costs more than its queue. A call of another node is followed by reading alone.
 */

import { type Invocation, type InvocationEvent, isTerminal } from "@backplane/contract";
import type { InvocationRow, WatchItem } from "@backplane/ports";
import type { LiveCall } from "../calls/live.ts";
import { nextWake, Wake } from "../node/wake.ts";
import type { Door } from "./door.ts";
import { publicInvocation } from "./record.ts";
import { tapeOf } from "./run.ts";

const QUEUE = 256;
const PAGE = 200;
/** Appended events ride on the next commit; this is how long a reader waits for one it knows of. */
const FLUSH_MS = 5;
const FLUSH_TRIES = 200;
const POLL_MS = 500;

export async function* watch(
  door: Door,
  row: InvocationRow,
  after_seq: number,
  stop: AbortSignal,
): AsyncGenerator<WatchItem> {
  const live = door.live.get(row.id);
  if (live !== undefined) yield* watchLive(door, live, after_seq, stop);
  else yield* watchStored(door, row, after_seq, stop);
}

async function* watchLive(
  door: Door,
  live: LiveCall,
  after_seq: number,
  stop: AbortSignal,
): AsyncGenerator<WatchItem> {
  const tape = tapeOf(door.deps, live);
  const wake = new Wake();
  let queue: InvocationEvent[] = [];
  let last = after_seq;
  // Starts behind: what came before is in the store.
  let behind = true;
  let ended: Invocation | null = null;
  const unsubscribe = tape.subscribe((event) => {
    if (queue.length < QUEUE) queue.push(event);
    else {
      queue = [];
      behind = true;
    }
    wake.ring();
  });
  const forget = live.onSettled((invocation) => {
    ended = invocation;
    wake.ring();
  });
  const onStop = () => wake.ring();
  stop.addEventListener("abort", onStop);
  try {
    while (!stop.aborted) {
      if (behind) {
        behind = false;
        const known = tape.seq;
        for await (const event of readUpTo(door, live.row.id, last, known, stop)) {
          last = event.seq;
          yield event;
        }
        last = Math.max(last, known);
        continue;
      }
      const event = queue.shift();
      if (event !== undefined) {
        if (event.seq <= last) continue;
        last = event.seq;
        yield event;
      } else if (ended !== null) {
        // A durable approval outlives its gateway: the call goes on at the next start, and so may the reader.
        if (isTerminal((ended as Invocation).status)) yield { settled: ended };
        return;
      } else await wake.rung();
    }
  } finally {
    stop.removeEventListener("abort", onStop);
    unsubscribe();
    forget();
  }
}

/** From the store until `known`, waiting a moment for what is not committed yet. */
async function* readUpTo(
  door: Door,
  id: string,
  after_seq: number,
  known: number,
  stop: AbortSignal,
): AsyncGenerator<InvocationEvent> {
  let last = after_seq;
  for (let tries = 0; last < known && tries < FLUSH_TRIES && !stop.aborted; ) {
    const events = await door.deps.store.invocations.events(id, last, PAGE);
    for (const event of events) {
      if (event.seq > known) return;
      last = event.seq;
      yield event;
    }
    if (events.length > 0) continue;
    tries++;
    await new Promise<void>((resolve) => void door.deps.clock.after(FLUSH_MS, resolve));
  }
}

async function* watchStored(
  door: Door,
  row: InvocationRow,
  after_seq: number,
  stop: AbortSignal,
): AsyncGenerator<WatchItem> {
  const { store, clock } = door.deps;
  let last = after_seq;
  while (!stop.aborted) {
    // The row first: events written before its end are then all there.
    const now = await store.invocations.get(row, row.id);
    const events = await store.invocations.events(row.id, last, PAGE);
    for (const event of events) {
      last = event.seq;
      yield event;
    }
    if (events.length === PAGE) continue;
    if (now === null) return;
    if (isTerminal(now.status)) {
      yield { settled: publicInvocation(now) };
      return;
    }
    await nextWake(clock, POLL_MS, stop);
  }
}
