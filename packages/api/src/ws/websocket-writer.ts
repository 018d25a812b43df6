/**
 * Writes frames to sockets (benchmarks fanout.ws and fanout.ws.cpu). A frame is encoded once and the same bytes go to
 * every socket of a session. `ws` writes its own frames (pong, close) synchronously because compression is off, so its
 * frames and those written here never interleave. The second frame within one tick corks the socket until the end of
 * the tick, so that the rest of a burst is one write.
 */
import type { Duplex } from "node:stream";
import type { WatchedEvent } from "@backplane/ports";
import type { WebSocket } from "ws";
import { textFrame } from "./text-frame.ts";

/** State that all writers of a server share: the current tick, its corked sockets and the last encoded frame. */
export class WriteTicks {
  now = 0;
  #ending = false;
  #corked: WebSocketWriter[] = [];
  #watched: WatchedEvent | null = null;
  #frame: Buffer | null = null;

  /** All sockets of a session are sent an event one after another, so caching one frame is enough. */
  getFrame(watched: WatchedEvent): Buffer {
    if (this.#watched !== watched || this.#frame === null) {
      this.#watched = watched;
      this.#frame = textFrame(watched.frame);
    }
    return this.#frame;
  }

  cork(writer: WebSocketWriter): void {
    writer.socket.cork();
    this.#corked.push(writer);
  }

  /** Schedules the end of the current tick. */
  scheduleEnd(): void {
    if (this.#ending) return;
    this.#ending = true;
    process.nextTick(this.#end);
  }

  readonly #end = (): void => {
    this.#ending = false;
    this.now++;
    this.#watched = null;
    this.#frame = null;
    if (this.#corked.length === 0) return;
    const corked = this.#corked;
    this.#corked = [];
    for (const writer of corked) writer.uncork();
  };
}

export class WebSocketWriter {
  readonly socket: Duplex;
  readonly #ws: WebSocket;
  readonly #ticks: WriteTicks;
  #tick = -1;
  #corked = false;

  constructor(ws: WebSocket, socket: Duplex, ticks: WriteTicks) {
    this.#ws = ws;
    this.socket = socket;
    this.#ticks = ticks;
  }

  get buffered_bytes(): number {
    return this.socket.writableLength;
  }

  writeEvent(watched: WatchedEvent): number {
    return this.write(this.#ticks.getFrame(watched));
  }

  /** Returns the number of buffered bytes. Writes nothing after a close frame. */
  write(frame: Buffer): number {
    if (this.#ws.readyState !== this.#ws.OPEN) return 0;
    const { socket } = this;
    const ticks = this.#ticks;
    if (this.#tick !== ticks.now) {
      this.#tick = ticks.now;
      ticks.scheduleEnd();
    } else if (!this.#corked) {
      this.#corked = true;
      ticks.cork(this);
    }
    socket.write(frame);
    return socket.writableLength;
  }

  uncork(): void {
    this.#corked = false;
    this.socket.uncork();
  }

  /** If the buffer is full, waits until it is empty or the socket is closed. */
  drained(): Promise<void> {
    const { socket } = this;
    if (!socket.writableNeedDrain || socket.destroyed) return Promise.resolve();
    return new Promise((resolve) => {
      const done = () => {
        socket.off("drain", done);
        socket.off("close", done);
        resolve();
      };
      socket.on("drain", done);
      socket.on("close", done);
    });
  }
}
