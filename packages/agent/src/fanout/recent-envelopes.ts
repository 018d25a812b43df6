/**
 * The entries and other events that arrive while a client reads the tape. Evicted entries can be read from the tape;
 * other evicted events are lost.
 */
import type { Envelope } from "./envelopes.ts";

export interface RecentEnvelope {
  seq: number;
  envelope: Envelope;
}

export class RecentEnvelopes {
  readonly #entries: BoundedBuffer;
  readonly #events: BoundedBuffer;

  /** `max` limits the characters of entries and of events separately. */
  constructor(max: number) {
    this.#entries = new BoundedBuffer(max);
    this.#events = new BoundedBuffer(max);
  }

  add(recent: RecentEnvelope): void {
    (recent.envelope.entry_id === null ? this.#events : this.#entries).add(recent);
  }

  /** Returns whether no entry after `cursor` has been evicted. */
  reaches(cursor: number): boolean {
    return this.#entries.last_evicted <= cursor;
  }

  /**
   * Returns the entries after `cursor` and the other events after `seq` in order of arrival, or null when
   * some of those events were evicted.
   */
  since(cursor: number, seq: number): RecentEnvelope[] | null {
    if (this.#events.last_evicted > seq) return null;
    const entries = this.#entries.items.filter(({ envelope }) => envelope.entry_id! > cursor);
    const events = this.#events.items.filter((event) => event.seq > seq);
    return [...entries, ...events].sort((a, b) => a.seq - b.seq);
  }
}

class BoundedBuffer {
  items: RecentEnvelope[] = [];
  /** The highest position of an evicted item: the id of an entry, or the sequence number of an event. */
  last_evicted = 0;
  #size = 0;
  readonly #max: number;

  constructor(max: number) {
    this.#max = max;
  }

  add(recent: RecentEnvelope): void {
    this.items.push(recent);
    this.#size += recent.envelope.frame.length;
    while (this.#size > this.#max) {
      const oldest = this.items.shift()!;
      this.#size -= oldest.envelope.frame.length;
      this.last_evicted = Math.max(this.last_evicted, oldest.envelope.entry_id ?? oldest.seq);
    }
  }
}
