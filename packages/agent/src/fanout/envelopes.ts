/** The envelope that clients receive, serialized once for any number of connections. */

import { type BusEvent, type Entry, type IdSource, KERNEL_SESSION, type Session } from "@backplane/contract";
import type { Clock, SessionKey, WatchedEvent } from "@backplane/ports";
import type { WrittenItem } from "@backplane/session";
import type { UnfinishedAnswer, UnfinishedText } from "./unfinished-answers.ts";

const SOURCE = "kernel-session-context";

export class Envelope implements WatchedEvent {
  readonly event: BusEvent;
  readonly entry_id: number | null;
  readonly #session_id: string;
  #frame: string | null = null;

  constructor(session_id: string, event: BusEvent, entry_id: number | null) {
    this.event = event;
    this.entry_id = entry_id;
    this.#session_id = session_id;
  }

  get frame(): string {
    this.#frame ??= this.#serialize();
    return this.#frame;
  }

  #serialize(): string {
    const { id, kind, session_id, ts, source, payload } = this.event;
    const event = { id, kind, session_id, ts, source, payload };
    const op = { op: "event", session_id: this.#session_id, event };
    return JSON.stringify(this.entry_id === null ? op : { ...op, entry_id: this.entry_id });
  }
}

export interface EnvelopeDeps {
  clock: Pick<Clock, "now">;
  ids: IdSource;
}

/** Makes the envelopes of written and replayed entries and of unfinished answers. */
export class Envelopes {
  readonly #deps: EnvelopeDeps;

  constructor(deps: EnvelopeDeps) {
    this.#deps = deps;
  }

  /** An entry without an event, such as an anchor or an added block, has the same form as in a replay. */
  forWritten(key: SessionKey, { entry, event }: WrittenItem): Envelope {
    if (event === null) return this.forReplay(key, entry);
    return new Envelope(key.session_id, asTaped(event, entry), entry.id);
  }

  forReplay(key: SessionKey, { id, kind, payload, date }: Entry): Envelope {
    const replayed = { session_id: key.session_id, entry_id: id, kind, payload };
    const event = this.#event(key, "session.replay.entry", replayed, SOURCE, KERNEL_SESSION);
    return new Envelope(key.session_id, { ...event, ts: Date.parse(date) / 1000 }, id);
  }

  forReplayDone(key: SessionKey, connection_id: string, replayed: number): Envelope {
    const payload = { session_id: key.session_id, connection_id, replayed };
    const event = this.#event(key, "session.replay.done", payload, SOURCE, KERNEL_SESSION);
    return new Envelope(key.session_id, event, null);
  }

  /** The whole thinking and text of the unfinished answer. They replace the part that the client already has. */
  forCatchUp(key: SessionKey, { answer, thinking, iteration }: UnfinishedAnswer): Envelope[] {
    const toEnvelope = (kind: string, payload: Record<string, unknown>) =>
      new Envelope(key.session_id, this.#event(key, kind, payload, "kernel", key.session_id), null);
    const toFlags = ({ truncated }: UnfinishedText) => ({
      catch_up: true,
      ...(truncated ? { truncated } : {}),
    });
    const envelopes: Envelope[] = [];
    if (thinking !== null) {
      const { request_id, text } = thinking;
      envelopes.push(toEnvelope("llm.call.delta", { request_id, thinking: text, ...toFlags(thinking) }));
    }
    if (answer !== null) {
      const iteration_field = iteration === undefined ? {} : { iteration };
      const payload = { content: answer.text, ...iteration_field, ...toFlags(answer) };
      envelopes.push(toEnvelope("assistant.message.delta", payload));
    }
    return envelopes;
  }

  #event(
    { scope }: SessionKey,
    kind: string,
    payload: Record<string, unknown>,
    source: string,
    session_id: string,
  ): BusEvent {
    const { ids, clock } = this.#deps;
    return { id: ids.next("event"), kind, session_id, ts: clock.now() / 1000, source, ...scope, payload };
  }
}

/**
 * An `llm.call.request` event holds the whole context of the model call. Its form on the tape refers to that context
 * instead, so the context is not sent again with each call.
 */
function asTaped(event: BusEvent, { payload }: Entry): BusEvent {
  const { data } = payload;
  if (event.kind !== "llm.call.request" || typeof data !== "object" || data === null) return event;
  return { ...event, payload: data as Record<string, unknown> };
}

/** Returns the id of the event that finished the answer, or null if the entry is not a finished answer. */
export function finishEventIdOf({ kind, payload, meta }: Entry): string | null {
  if (kind !== "message" || payload.role !== "assistant") return null;
  return typeof meta.event_id === "string" ? meta.event_id : null;
}

export function withLastEntryId(row: Session, last_entry_id: number): Session {
  return row.last_entry_id === last_entry_id ? row : { ...row, last_entry_id };
}
