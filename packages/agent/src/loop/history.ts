/**
 * The model's view of sessions in use. Each history is read from the tape once and then extended with every
 * entry as it is written. The number of histories is bounded; an evicted one is read again when its session
 * is next used.
 */

import type { ChatMessage, Entry } from "@backplane/contract";
import type { SessionKey } from "@backplane/ports";
import { ContextBuilder, type Sessions, sessionName, type TapeFeed } from "@backplane/session";

export interface History {
  readonly tokens: number;
  readonly size: number;
  messages(): ChatMessage[];
  chain_id: string;
  last_id: number;
}

class Kept implements History {
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

const KEPT = 512;

export class Histories {
  readonly #sessions: Pick<Sessions, "hydrate">;
  readonly #kept = new Map<string, Kept>();

  constructor(sessions: Pick<Sessions, "hydrate">, feed: TapeFeed) {
    this.#sessions = sessions;
    feed.onWritten((key, items) => {
      const kept = this.#kept.get(sessionName(key));
      if (kept === undefined) return;
      for (const { entry } of items) this.#follow(key, kept, entry);
    });
  }

  /** Returns the history and reads the tape only if it is not cached. */
  async open(key: SessionKey): Promise<History> {
    const name = sessionName(key);
    const there = this.#kept.get(name);
    if (there !== undefined && there.early === null) {
      this.#kept.delete(name);
      this.#kept.set(name, there);
      return there;
    }
    const kept = new Kept();
    this.#kept.set(name, kept);
    if (this.#kept.size > KEPT) this.#kept.delete(this.#kept.keys().next().value as string);
    try {
      const { session, entries } = await this.#sessions.hydrate(key);
      kept.chain_id = session.head_chain_id;
      for (const entry of entries) kept.add(entry);
      const early = kept.early!;
      kept.early = null;
      for (const entry of early) if (entry.id > kept.last_id) kept.add(entry);
      return kept;
    } catch (error) {
      this.#kept.delete(name);
      throw error;
    }
  }

  /** Called when the head moved or another writer appended. */
  forget(key: SessionKey): void {
    this.#kept.delete(sessionName(key));
  }

  #follow(key: SessionKey, kept: Kept, entry: Entry): void {
    if (kept.early !== null) kept.early.push(entry);
    else if (entry.id === kept.last_id + 1) kept.add(entry);
    else this.forget(key);
  }
}
