/**
 * The events of one running call: numbered, bounded, written to the store and passed to readers. Events beyond the
 * bound are dropped, and a last event reports their number.
 */

import { INVOCATION_LIMITS, type InvocationEvent } from "@backplane/contract";
import type { Clock, InvocationStore } from "@backplane/ports";

/** Called with each event. Must not block the call: a reader that falls behind reads from the store instead. */
export type EventReader = (event: InvocationEvent) => void;

export class EventLog {
  readonly #id: string;
  readonly #store: InvocationStore;
  readonly #clock: Clock;
  readonly #readers = new Set<EventReader>();
  #dropped = 0;
  #chars = 0;
  /** The number of the last event. */
  seq: number;

  constructor(id: string, store: InvocationStore, clock: Clock, last_seq: number) {
    this.#id = id;
    this.#store = store;
    this.#clock = clock;
    this.seq = last_seq;
  }

  write(event: InvocationEvent["event"]): void {
    const { events_chars, events_kept } = INVOCATION_LIMITS;
    // One event may be as large as a message, so a limit on the number of events would not bound the size of the log.
    const chars = this.seq < events_kept ? JSON.stringify(event).length : 0;
    if (this.seq >= events_kept || this.#chars + chars > events_chars) {
      this.#dropped++;
      return;
    }
    this.#chars += chars;
    this.#append(event);
  }

  /** Writes how many events were dropped, if any. */
  close(): void {
    if (this.#dropped > 0) this.#append({ type: "events_dropped", dropped: this.#dropped });
    this.#dropped = 0;
  }

  subscribe(reader: EventReader): () => void {
    this.#readers.add(reader);
    return () => this.#readers.delete(reader);
  }

  #append(event: InvocationEvent["event"]): void {
    const entry = { seq: ++this.seq, at: new Date(this.#clock.now()).toISOString(), event };
    this.#store.appendEvents(this.#id, [entry]);
    for (const reader of this.#readers) reader(entry);
  }
}
