/**
 * The model's view of sessions in use. Each history is read from the tape once and then extended with every
 * entry as it is written. The number of histories is bounded; an evicted one is read again when its session
 * is next used.
 */

import type { ChatMessage, Entry } from "@backplane/contract";
import type { SessionKey } from "@backplane/ports";
import { ContextBuilder, type Sessions, sessionMapKey, type TapeFeed } from "@backplane/session";

export interface History {
  readonly tokens: number;
  readonly size: number;
  messages(): ChatMessage[];
  chain_id: string;
  last_id: number;
}

class CachedHistory implements History {
  chain_id = "";
  last_id = 0;
  /** Entries that are written while the tape is being read; null afterwards. */
  early: Entry[] | null = [];
  /** Settles when the tape has been read. */
  reading: Promise<void> = Promise.resolve();
  readonly #builder = new ContextBuilder();

  get tokens(): number {
    return this.#builder.tokens;
  }

  get size(): number {
    return this.#builder.size;
  }

  messages(): ChatMessage[] {
    return this.#builder.messages();
  }

  add(entry: Entry): void {
    this.#builder.add(entry);
    this.last_id = entry.id;
  }
}

const MAX_CACHED = 512;
/** Adding this many entries takes a few milliseconds. */
const ENTRIES_PER_SLICE = 500;

export class Histories {
  readonly #sessions: Pick<Sessions, "hydrate">;
  readonly #yieldToEventLoop: () => Promise<void>;
  readonly #cached = new Map<string, CachedHistory>();

  constructor(sessions: Pick<Sessions, "hydrate">, feed: TapeFeed, yieldToEventLoop: () => Promise<void>) {
    this.#sessions = sessions;
    this.#yieldToEventLoop = yieldToEventLoop;
    feed.onWritten((key, items) => {
      const cached = this.#cached.get(sessionMapKey(key));
      if (cached === undefined) return;
      for (const { entry } of items) this.#extend(key, cached, entry);
    });
  }

  /** Returns the history. The tape is read only if the history is not cached. */
  async open(key: SessionKey): Promise<History> {
    const map_key = sessionMapKey(key);
    for (;;) {
      const cached = this.#cached.get(map_key) ?? this.#read(key);
      await cached.reading;
      // If the history was forgotten while it was read, it may lack entries.
      if (this.#cached.get(map_key) !== cached) continue;
      // The map is ordered by the last use.
      this.#cached.delete(map_key);
      this.#cached.set(map_key, cached);
      return cached;
    }
  }

  #read(key: SessionKey): CachedHistory {
    const map_key = sessionMapKey(key);
    const cached = new CachedHistory();
    this.#cached.set(map_key, cached);
    if (this.#cached.size > MAX_CACHED) this.#evictOldest();
    cached.reading = this.#fill(key, cached).catch((error: unknown) => {
      if (this.#cached.get(map_key) === cached) this.#cached.delete(map_key);
      throw error;
    });
    return cached;
  }

  async #fill(key: SessionKey, cached: CachedHistory): Promise<void> {
    const { session, entries } = await this.#sessions.hydrate(key);
    cached.chain_id = session.head_chain_id;
    for (const [index, entry] of entries.entries()) {
      // A long tape would block the event loop (compact.turn.lag).
      if (index % ENTRIES_PER_SLICE === 0 && entries.length > ENTRIES_PER_SLICE)
        await this.#yieldToEventLoop();
      cached.add(entry);
    }
    const early = cached.early!;
    cached.early = null;
    for (const entry of early) if (entry.id > cached.last_id) cached.add(entry);
  }

  /** Called when the head has moved or another writer has appended. */
  forget(key: SessionKey): void {
    this.#cached.delete(sessionMapKey(key));
  }

  #evictOldest(): void {
    for (const [map_key, { early }] of this.#cached) {
      // A history that is being read still has to collect the entries that are written meanwhile.
      if (early !== null) continue;
      this.#cached.delete(map_key);
      return;
    }
  }

  #extend(key: SessionKey, cached: CachedHistory, entry: Entry): void {
    if (cached.early !== null) cached.early.push(entry);
    else if (entry.id === cached.last_id + 1) cached.add(entry);
    else this.forget(key);
  }
}
