/** What came while somebody reads the tape. Entries that do not fit are on the tape; other events are nowhere else. */
import type { Shown } from "./shown.ts";

export interface Kept {
  seq: number;
  shown: Shown;
}

export class Recent {
  readonly #entries: Shelf;
  readonly #events: Shelf;

  /** So many characters of either. */
  constructor(max: number) {
    this.#entries = new Shelf(max);
    this.#events = new Shelf(max);
  }

  keep(kept: Kept): void {
    (kept.shown.entry_id === null ? this.#events : this.#entries).add(kept);
  }

  /** Whether everything after `cursor` that the tape did not show yet is here. */
  reaches(cursor: number): boolean {
    return this.#entries.lost <= cursor;
  }

  /** Entries after `cursor` and other events after `seq`, as they came; null when some of those are gone. */
  since(cursor: number, seq: number): Kept[] | null {
    if (this.#events.lost > seq) return null;
    const entries = this.#entries.kept.filter(({ shown }) => shown.entry_id! > cursor);
    const events = this.#events.kept.filter((kept) => kept.seq > seq);
    return [...entries, ...events].sort((one, other) => one.seq - other.seq);
  }
}

class Shelf {
  kept: Kept[] = [];
  /** The highest mark of those that had to make room: an entry's id, or an event's place. */
  lost = 0;
  #size = 0;
  readonly #max: number;

  constructor(max: number) {
    this.#max = max;
  }

  add(kept: Kept): void {
    this.kept.push(kept);
    this.#size += kept.shown.frame.length;
    while (this.#size > this.#max) {
      const oldest = this.kept.shift()!;
      this.#size -= oldest.shown.frame.length;
      this.lost = Math.max(this.lost, oldest.shown.entry_id ?? oldest.seq);
    }
  }
}
