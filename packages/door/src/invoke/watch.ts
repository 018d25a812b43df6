/**
 * Streams the events of one call: stored events after `after_seq`, then live events, then the settled record, without
 * repeats, and without gaps unless the store takes longer than a second to commit an event. A watcher whose queue
 * overflows continues from the store, so its memory stays bounded. A call on another node is followed by polling the
 * store.
 */

import { type Invocation, type InvocationEvent, isTerminal } from "@backplane/contract";
import type { InvocationRow, WatchItem } from "@backplane/ports";
import type { LiveCall } from "../calls/live-calls.ts";
import { sleep, WakeSignal } from "../node/wake.ts";
import { getEventLog } from "./call-listener.ts";
import type { Door } from "./door.ts";
import { toPublicInvocation } from "./record.ts";

const QUEUE_LENGTH = 256;
const PAGE_SIZE = 200;
/**
 * Appended events are written with the next commit. A reader polls at this interval for an event that was announced but
 * is not stored yet.
 */
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
  const event_log = getEventLog(door.deps, live);
  const wake = new WakeSignal();
  let queue: InvocationEvent[] = [];
  let last = after_seq;
  // Starts behind, because the earlier events are in the store.
  let is_behind = true;
  let ended: Invocation | null = null;
  const unsubscribe = event_log.subscribe((event) => {
    if (queue.length < QUEUE_LENGTH) queue.push(event);
    else {
      queue = [];
      is_behind = true;
    }
    wake.notify();
  });
  const removeListener = live.onSettled((invocation) => {
    ended = invocation;
    wake.notify();
  });
  const onStop = () => wake.notify();
  stop.addEventListener("abort", onStop);
  try {
    while (!stop.aborted) {
      if (is_behind) {
        is_behind = false;
        const last_announced = event_log.seq;
        for await (const event of readUpTo(door, live.row.id, last, last_announced, stop)) {
          last = event.seq;
          yield event;
        }
        last = Math.max(last, last_announced);
        continue;
      }
      const event = queue.shift();
      if (event !== undefined) {
        if (event.seq <= last) continue;
        last = event.seq;
        yield event;
      } else if (ended !== null) {
        // A gateway that stops releases calls that can continue later, such as those with a durable approval.
        if (isTerminal((ended as Invocation).status)) yield { settled: ended };
        return;
      } else await wake.wait();
    }
  } finally {
    stop.removeEventListener("abort", onStop);
    unsubscribe();
    removeListener();
  }
}

/** Reads from the store up to the seq `last_announced`, and waits briefly for events that are not committed yet. */
async function* readUpTo(
  door: Door,
  id: string,
  after_seq: number,
  last_announced: number,
  stop: AbortSignal,
): AsyncGenerator<InvocationEvent> {
  let last = after_seq;
  for (let tries = 0; last < last_announced && tries < FLUSH_TRIES && !stop.aborted; ) {
    const events = await door.deps.store.invocations.listEvents(id, last, PAGE_SIZE);
    for (const event of events) {
      if (event.seq > last_announced) return;
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
    // The row is read first, so that all events of a settled row are included.
    const current = await store.invocations.get(row, row.id);
    const events = await store.invocations.listEvents(row.id, last, PAGE_SIZE);
    for (const event of events) {
      last = event.seq;
      yield event;
    }
    if (events.length === PAGE_SIZE) continue;
    if (current === null) return;
    if (isTerminal(current.status)) {
      yield { settled: toPublicInvocation(current) };
      return;
    }
    await sleep(clock, POLL_MS, stop);
  }
}
