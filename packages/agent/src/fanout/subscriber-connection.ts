/**
 * One client on one session (fanout.attach). The connection reads the tape from its cursor until it reaches the entries
 * that the hub has kept meanwhile, becomes live in that same step, and from then on receives each entry as it is
 * written. After a gap in the entries it reads again. A connection that is `gone` has left its hub:
 *
 *   reading → live → reading …, and either → gone
 */

import { codeOf, type Entry } from "@backplane/contract";
import type { Attachment, Fanout, Logger, SessionKey } from "@backplane/ports";
import type { Envelope, Envelopes } from "./envelopes.ts";
import type { Hub } from "./hub.ts";

export type AttachOptions = Parameters<Fanout["attach"]>[2];
export type DetachReason = NonNullable<Parameters<Attachment["detach"]>[0]> | "timeout";

export interface ConnectionDeps {
  envelopes: Envelopes;
  replay(key: SessionKey, after_id: number, limit: number): Promise<Entry[]>;
  log: Pick<Logger, "debug" | "warn">;
  buffered_bytes: number;
  /** Called once, after the connection has left its hub. */
  onDetached(connection: SubscriberConnection, reason: DetachReason): void;
}

const PAGE = 256;

export class SubscriberConnection {
  readonly id: string;
  readonly actor: string;
  readonly hub: Hub;
  last_heartbeat_at: number;
  readonly #deps: ConnectionDeps;
  readonly #options: AttachOptions;
  #state: "reading" | "live" | "gone" = "reading";
  #cursor: number;
  /**
   * A value of `hub.seq`. Events that are not on the tape and have this number or a lower one were sent, or preceded
   * this read.
   */
  #seq = 0;
  #buffered = 0;

  constructor(
    client: { id: string; actor: string; hub: Hub; cursor: number; now: number },
    options: AttachOptions,
    deps: ConnectionDeps,
  ) {
    this.id = client.id;
    this.actor = client.actor;
    this.hub = client.hub;
    this.last_heartbeat_at = client.now;
    this.#cursor = client.cursor;
    this.#options = options;
    this.#deps = deps;
  }

  receiveEntry(id: number, envelope: Envelope): void {
    if (this.#state !== "live" || id <= this.#cursor) return;
    // Entry ids of a session have no gaps, so a jump means that an earlier entry is on the tape and was not
    // received.
    if (id !== this.#cursor + 1) void this.read(null);
    else if (this.#send(envelope)) this.#cursor = id;
  }

  receiveLive(envelope: Envelope): void {
    if (this.#state === "live") this.#send(envelope);
  }

  /** Never rejects. `first` is set for the read that follows the attach, and null for later reads. */
  async read(first: { replay: boolean } | null): Promise<void> {
    const { hub } = this;
    this.#state = "reading";
    this.#seq = hub.seq;
    hub.startReading();
    try {
      let replayed = first?.replay === false ? 0 : await this.#readTape();
      if (replayed === null) return;
      if (first !== null && !this.#send(this.#deps.envelopes.forReplayDone(hub.key, this.id, replayed)))
        return;
      while (replayed !== null && !this.#goLive()) replayed = await this.#readTape();
    } catch (error) {
      this.#deps.log.warn(
        { err: error, code: codeOf(error), connection_id: this.id },
        "replay to a client failed",
      );
      this.end("send_failed");
    } finally {
      hub.stopReading();
    }
  }

  detach(reason: DetachReason): void {
    if (this.#state === "gone") return;
    this.#state = "gone";
    this.hub.connections.delete(this);
    this.#deps.onDetached(this, reason);
  }

  end(reason: Exclude<DetachReason, "client_close">): void {
    if (this.#state === "gone") return;
    this.detach(reason);
    try {
      this.#options.ended(reason);
    } catch (error) {
      this.#deps.log.debug({ err: error, connection_id: this.id }, "notifying a detached client failed");
    }
  }

  /** Returns the number of entries sent, or null when the client has left meanwhile. */
  async #readTape(): Promise<number | null> {
    const { hub } = this;
    const deps = this.#deps;
    for (let replayed = 0; ; ) {
      const page = await deps.replay(hub.key, this.#cursor, PAGE);
      for (const entry of page) {
        if (this.#state === "gone") return null;
        hub.noteFinished(entry);
        if (!this.#send(deps.envelopes.forReplay(hub.key, entry))) return null;
        this.#cursor = entry.id;
        replayed++;
        // The tape is read faster than a client receives the entries, so reading pauses until the client has drained
        // its buffer.
        if (this.#buffered > deps.buffered_bytes / 4) await this.#options.drained?.();
      }
      if (this.#isGone()) return null;
      if (page.length < PAGE && hub.reaches(this.#cursor)) return replayed;
    }
  }

  /**
   * Runs synchronously, so that no entry can arrive between the kept entries and the live ones. Returns false
   * when the kept entries leave a gap after the cursor, which only the tape can fill.
   */
  #goLive(): boolean {
    const { hub } = this;
    const missed = hub.since(this.#cursor, this.#seq);
    if (missed === null) {
      this.end("send_failed");
      return true;
    }
    for (const { envelope, seq } of missed) {
      const { entry_id } = envelope;
      if (entry_id !== null && entry_id > this.#cursor + 1) return false;
      if (entry_id !== null && entry_id <= this.#cursor) continue;
      if (!this.#send(envelope)) return true;
      if (entry_id !== null) this.#cursor = entry_id;
      this.#seq = seq;
    }
    const { unfinished } = hub;
    if (unfinished !== undefined)
      for (const envelope of this.#deps.envelopes.forCatchUp(hub.key, unfinished))
        if (!this.#send(envelope)) return true;
    this.#state = "live";
    return true;
  }

  #isGone(): boolean {
    return this.#state === "gone";
  }

  #send(envelope: Envelope): boolean {
    if (this.#state === "gone") return false;
    try {
      this.#buffered = this.#options.send(envelope);
      if (this.#buffered <= this.#deps.buffered_bytes) return !this.#isGone();
    } catch (error) {
      this.#deps.log.debug({ err: error, connection_id: this.id }, "sending to a client failed");
    }
    this.end("send_failed");
    return false;
  }
}
