/**
 * One watched session: its connections, and the events that they missed while they were reading the tape. `recent`
 * holds the entries and events, except deltas, since the first of the reading connections began to read, so that the
 * switch from the tape to live events leaves no gap. Its size is limited.
 */

import type { BusEvent, Entry } from "@backplane/contract";
import type { SessionKey } from "@backplane/ports";
import type { WrittenItem } from "@backplane/session";
import { Envelope, type Envelopes, finishEventIdOf } from "./envelopes.ts";
import { type RecentEnvelope, RecentEnvelopes } from "./recent-envelopes.ts";
import type { SubscriberConnection } from "./subscriber-connection.ts";
import type { UnfinishedAnswer, UnfinishedAnswers } from "./unfinished-answers.ts";

export interface HubDeps {
  envelopes: Envelopes;
  unfinished: UnfinishedAnswers;
  /** `recent` keeps at most this many characters of entries, and as many of other events. */
  recent_chars: number;
}

export class Hub {
  readonly key: SessionKey;
  readonly connections = new Set<SubscriberConnection>();
  /** Attaches in progress. They keep the hub alive before the first client is connected. */
  pins = 0;
  /** The highest entry id that the hub has received. */
  last_entry_id = 0;
  /** The number of entries and events so far, without deltas. Marks where a connection began to read. */
  seq = 0;
  readonly #deps: HubDeps;
  #readers = 0;
  #recent: RecentEnvelopes | null = null;
  #finished_id = "";

  constructor(key: SessionKey, deps: HubDeps) {
    this.key = key;
    this.#deps = deps;
  }

  get is_idle(): boolean {
    return this.pins === 0 && this.connections.size === 0;
  }

  get unfinished(): UnfinishedAnswer | undefined {
    const { scope, workspace, session_id } = this.key;
    const answer = this.#deps.unfinished.get(scope, session_id);
    return answer?.workspace === null || answer?.workspace === workspace ? answer : undefined;
  }

  /**
   * Distributes entries that are on disk. Each connection ignores repeated or late entries by its own cursor.
   */
  publishWritten(items: readonly WrittenItem[]): void {
    for (const item of items) {
      const { entry } = item;
      this.noteFinished(entry);
      if (entry.id > this.last_entry_id) this.last_entry_id = entry.id;
      if (this.connections.size === 0) continue;
      const envelope = this.#deps.envelopes.forWritten(this.key, item);
      this.#remember(envelope);
      for (const connection of this.connections) connection.receiveEntry(entry.id, envelope);
    }
  }

  /** Distributes an event that is not on the tape. */
  publish(event: BusEvent): void {
    if (this.connections.size === 0) return;
    const envelope = new Envelope(this.key.session_id, event, null);
    this.#remember(envelope);
    for (const connection of this.connections) connection.receiveLive(envelope);
  }

  /**
   * Deltas are not kept for readers, because a reader receives the whole text of the answer when it becomes
   * live.
   */
  publishDelta(event: BusEvent): void {
    const envelope = new Envelope(this.key.session_id, event, null);
    for (const connection of this.connections) connection.receiveLive(envelope);
  }

  /** Returns whether the answer of the delta has already ended. The bus can lag behind the tape. */
  isLate(delta: BusEvent): boolean {
    return delta.id < this.#finished_id;
  }

  noteFinished(entry: Entry): void {
    const event_id = finishEventIdOf(entry);
    if (event_id === null) return;
    if (event_id > this.#finished_id) this.#finished_id = event_id;
    this.#deps.unfinished.dropFinished(this.key.scope, this.key.session_id, event_id);
  }

  startReading(): void {
    this.#readers++;
    this.#recent ??= new RecentEnvelopes(this.#deps.recent_chars);
  }

  stopReading(): void {
    if (--this.#readers === 0) this.#recent = null;
  }

  reaches(cursor: number): boolean {
    return this.#recent?.reaches(cursor) ?? true;
  }

  since(cursor: number, seq: number): RecentEnvelope[] | null {
    return this.#recent?.since(cursor, seq) ?? null;
  }

  #remember(envelope: Envelope): void {
    this.seq++;
    this.#recent?.add({ seq: this.seq, envelope });
  }
}
