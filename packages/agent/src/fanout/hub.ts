/**
 * One watched session: its connections, and what they missed while they were reading the tape. `recent` holds what
 * came since the first of them began to read, so that the step from the tape to live leaves no gap.
 */

import type { BusEvent, Entry } from "@backplane/contract";
import type { SessionKey } from "@backplane/ports";
import type { WrittenItem } from "@backplane/session";
import type { Connection } from "./connection.ts";
import type { Partials, UnfinishedAnswer } from "./partials.ts";
import { type Kept, Recent } from "./recent.ts";
import { type Envelopes, finishedBy, Shown } from "./shown.ts";

export interface HubDeps {
  envelopes: Envelopes;
  partials: Partials;
  /** What `recent` may hold, in characters. */
  recent_bytes: number;
}

export class Hub {
  readonly key: SessionKey;
  readonly connections = new Set<Connection>();
  /** Attaches under way: the hub stays though nobody is connected yet. */
  pins = 0;
  /** The highest entry that was told of. */
  last = 0;
  /** Counts what is kept. */
  seq = 0;
  readonly #deps: HubDeps;
  #readers = 0;
  #recent: Recent | null = null;
  #finished_id = "";

  constructor(key: SessionKey, deps: HubDeps) {
    this.key = key;
    this.#deps = deps;
  }

  get idle(): boolean {
    return this.pins === 0 && this.connections.size === 0;
  }

  get partial(): UnfinishedAnswer | undefined {
    const { scope, workspace, session_id } = this.key;
    const partial = this.#deps.partials.of(scope, session_id);
    return partial?.workspace === null || partial?.workspace === workspace ? partial : undefined;
  }

  /** Entries that are on disk now. A repeated or late one stops at the connections, which know where they are. */
  written(items: readonly WrittenItem[]): void {
    for (const item of items) {
      const { entry } = item;
      this.saw(entry);
      if (entry.id > this.last) this.last = entry.id;
      if (this.connections.size === 0) continue;
      const shown = this.#deps.envelopes.written(this.key, item);
      this.#keep(shown);
      for (const connection of this.connections) connection.entry(entry.id, shown);
    }
  }

  /** An event that is on no tape. */
  tell(event: BusEvent): void {
    if (this.connections.size === 0) return;
    const shown = new Shown(this.key.session_id, event, null);
    this.#keep(shown);
    for (const connection of this.connections) connection.live(shown);
  }

  /** The tape may have grown past its feed, as by a reset or a compaction. */
  refresh(): void {
    for (const connection of this.connections) connection.refresh();
  }

  /** Not kept for readers: they get all text of the answer at once. */
  delta(event: BusEvent): void {
    const shown = new Shown(this.key.session_id, event, null);
    for (const connection of this.connections) connection.live(shown);
  }

  /** True for a piece of an answer whose end has been told: the bus may be behind the tape. */
  isLate(delta: BusEvent): boolean {
    return delta.id < this.#finished_id;
  }

  saw(entry: Entry): void {
    const event_id = finishedBy(entry);
    if (event_id === null) return;
    if (event_id > this.#finished_id) this.#finished_id = event_id;
    this.#deps.partials.finished(this.key.scope, this.key.session_id, event_id);
  }

  startReading(): void {
    this.#readers++;
    this.#recent ??= new Recent(this.#deps.recent_bytes);
  }

  stopReading(): void {
    if (--this.#readers === 0) this.#recent = null;
  }

  reaches(cursor: number): boolean {
    return this.#recent?.reaches(cursor) ?? true;
  }

  since(cursor: number, seq: number): Kept[] | null {
    return this.#recent?.since(cursor, seq) ?? null;
  }

  #keep(shown: Shown): void {
    this.seq++;
    this.#recent?.keep({ seq: this.seq, shown });
  }
}
