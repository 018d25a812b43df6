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
  /** Entries that were written while the tape is still being read. */
  early: Entry[] | null = [];
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

export class Histories {
  readonly #sessions: Pick<Sessions, "hydrate">;
  readonly #cached = new Map<string, CachedHistory>();

  constructor(sessions: Pick<Sessions, "hydrate">, feed: TapeFeed) {
    this.#sessions = sessions;
    feed.onWritten((key, items) => {
      const cached = this.#cached.get(sessionMapKey(key));
      if (cached === undefined) return;
      for (const { entry } of items) this.#follow(key, cached, entry);
    });
  }

  /** Returns the history and reads the tape only if it is not cached. */
  async open(key: SessionKey): Promise<History> {
    const name = sessionMapKey(key);
    const known = this.#cached.get(name);
    if (known !== undefined && known.early === null) {
      this.#cached.delete(name);
      this.#cached.set(name, known);
      return known;
    }
    const cached = new CachedHistory();
    this.#cached.set(name, cached);
    if (this.#cached.size > MAX_CACHED) this.#cached.delete(this.#cached.keys().next().value as string);
    try {
      const { session, entries } = await this.#sessions.hydrate(key);
      cached.chain_id = session.head_chain_id;
      for (const entry of entries) cached.add(entry);
      const early = cached.early!;
      cached.early = null;
      for (const entry of early) if (entry.id > cached.last_id) cached.add(entry);
      return cached;
    } catch (error) {
      this.#cached.delete(name);
      throw error;
    }
  }

  /** Called when the head has moved or another writer has appended. */
  forget(key: SessionKey): void {
    this.#cached.delete(sessionMapKey(key));
  }

  #follow(key: SessionKey, cached: CachedHistory, entry: Entry): void {
    if (cached.early !== null) cached.early.push(entry);
    else if (entry.id === cached.last_id + 1) cached.add(entry);
    else this.forget(key);
  }
}
