/** Pinned entries (compactor.pins): messages, tool calls and results that every compaction keeps unchanged. */

import { BackplaneError, contentText, type Entry, type Pin } from "@backplane/contract";
import type { Caller, Clock, SessionKey, SessionStore } from "@backplane/ports";
import {
  blockOf,
  findChainEntry,
  type HydratedSession,
  originalId,
  restorePinned,
  type Sessions,
} from "@backplane/session";

const TEXT_CHARS = 200;

export interface PinDeps {
  store: { sessions: Pick<SessionStore, "pin" | "unpin" | "listPins"> };
  sessions: Pick<Sessions, "hydrate" | "readEntries">;
  clock: Pick<Clock, "now">;
}

export class Pins {
  readonly #deps: PinDeps;

  constructor(deps: PinDeps) {
    this.#deps = deps;
  }

  /** Pins an entry of the session's current chain or its ancestors. If the entry is a copy, its original is pinned. */
  async pin(key: SessionKey, caller: Caller, entry_id: number): Promise<Pin> {
    const source = await this.#deps.sessions.hydrate(key);
    const entry =
      source.entries.find(({ id }) => id === entry_id) ??
      (await findChainEntry(this.#deps.sessions, key, source.session.head_chain_id, entry_id));
    if (entry === null) {
      throw new BackplaneError(
        "request.invalid",
        `Entry ${entry_id} is not on the session's current chain.`,
        {
          fix: `List the entries: backplane session show ${key.session_id} --entries`,
        },
      );
    }
    if (!isPinnable(entry)) {
      throw new BackplaneError(
        "request.invalid",
        `Entry ${entry_id} cannot be pinned, because it is not a message, a tool call or a tool result.`,
      );
    }
    const original = originalId(entry);
    const at = new Date(this.#deps.clock.now()).toISOString();
    await this.#deps.store.sessions.pin(key, original, caller.actor, at);
    const pins = await this.list(key);
    return pins.find((pin) => pin.entry_id === original)!;
  }

  /**
   * Returns the id of the newest message or tool result that contains the text; without text, of the user's last
   * message. Entries of the current turn are considered last, because the request for a pin often repeats
   * the text.
   */
  async findByText(key: SessionKey, text: string | undefined): Promise<number> {
    const { entries } = await this.#deps.sessions.hydrate(key);
    if (text === undefined) {
      const last = entries.findLast(({ kind, payload }) => kind === "message" && payload.role === "user");
      if (last !== undefined) return last.id;
    } else {
      const last_answer = entries.findLastIndex(
        ({ kind, payload }) => kind === "message" && payload.role === "assistant",
      );
      const contains = (entry: Entry) =>
        entry.kind !== "tool_call" && isPinnable(entry) && textOf(entry).includes(text);
      const match =
        entries.slice(0, last_answer + 1).findLast(contains) ??
        entries.slice(last_answer + 1).findLast(contains);
      if (match !== undefined) return match.id;
    }
    throw new BackplaneError(
      "request.invalid",
      text === undefined
        ? "This conversation has no message of the user. Specify the entry to pin."
        : "No message or tool result in this conversation contains the text.",
    );
  }

  async unpin(key: SessionKey, entry_id: number): Promise<boolean> {
    const { store, sessions } = this.#deps;
    if (await store.sessions.unpin(key, entry_id)) return true;
    const { entries } = await sessions.hydrate(key);
    const copy = entries.find(({ id }) => id === entry_id);
    return copy !== undefined && (await store.sessions.unpin(key, originalId(copy)));
  }

  async list(key: SessionKey): Promise<Pin[]> {
    const { store, sessions } = this.#deps;
    const [source, pinned] = await Promise.all([sessions.hydrate(key), store.sessions.listPins(key)]);
    const current_entries = indexByOriginal(source);
    return await Promise.all(
      pinned.map(async ({ entry_id, pinned_by, pinned_at }) => {
        const visible = current_entries.get(entry_id);
        const entry =
          visible ?? (await findChainEntry(this.#deps.sessions, key, source.session.head_chain_id, entry_id));
        return {
          entry_id,
          kind: entry?.kind ?? "message",
          text: entry === null ? "" : textOf(entry).slice(0, TEXT_CHARS),
          in_context: visible !== undefined,
          pinned_by,
          pinned_at,
        };
      }),
    );
  }

  async restorePinned(
    key: SessionKey,
    source: HydratedSession,
  ): Promise<{ pins: ReadonlySet<number>; entries: readonly Entry[] }> {
    return await restorePinned(this.#deps, key, source);
  }
}

function indexByOriginal({ entries }: HydratedSession): Map<number, Entry> {
  return new Map(entries.map((entry) => [originalId(entry), entry]));
}

function isPinnable(entry: Entry): boolean {
  return entry.kind !== "anchor" && entry.kind !== "event" && blockOf(entry) !== null;
}

function textOf(entry: Entry): string {
  const block = blockOf(entry);
  if (block === null) return "";
  if (block.kind === "tool_call") return `${block.name} ${JSON.stringify(block.input ?? {})}`;
  return contentText(block.content);
}
