/**
 * The writing side of the sockets. A frame is bytes that were made once and are handed to every socket as they are.
 * `ws` writes its own frames (pongs, closes) whole and at once because nothing is compressed, so frames of the two
 * never mix. A socket's second frame within one turn corks it until the turn is over: a burst is one write.
 */
import type { Duplex } from "node:stream";
import type { Watched } from "@backplane/kernel";
import type { WebSocket } from "ws";
import { textFrame } from "./text-frame.ts";

/** What the lines of one server share: the turn they are in, and the frame that was made last. */
export class Turns {
  now = 0;
  #ending = false;
  #corked: Line[] = [];
  #watched: Watched | null = null;
  #frame: Buffer | null = null;

  /** All connections of a session get an event one after the other, so the last frame is the only one worth keeping. */
  frameOf(watched: Watched): Buffer {
    if (this.#watched !== watched || this.#frame === null) {
      this.#watched = watched;
      this.#frame = textFrame(watched.frame);
    }
    return this.#frame;
  }

  cork(line: Line): void {
    line.socket.cork();
    this.#corked.push(line);
  }

  /** Ends this turn when all that is under way in it is done. */
  begin(): void {
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
    for (const line of corked) line.uncork();
  };
}

export class Line {
  readonly socket: Duplex;
  readonly #ws: WebSocket;
  readonly #turns: Turns;
  #turn = -1;
  #corked = false;

  constructor(ws: WebSocket, socket: Duplex, turns: Turns) {
    this.#ws = ws;
    this.socket = socket;
    this.#turns = turns;
  }

  get waiting(): number {
    return this.socket.writableLength;
  }

  show(watched: Watched): number {
    return this.write(this.#turns.frameOf(watched));
  }

  /** Answers how many bytes wait. After a close frame nothing may follow it. */
  write(frame: Buffer): number {
    if (this.#ws.readyState !== this.#ws.OPEN) return 0;
    const { socket } = this;
    const turns = this.#turns;
    if (this.#turn !== turns.now) {
      this.#turn = turns.now;
      turns.begin();
    } else if (!this.#corked) {
      this.#corked = true;
      turns.cork(this);
    }
    socket.write(frame);
    return socket.writableLength;
  }

  uncork(): void {
    this.#corked = false;
    this.socket.uncork();
  }

  /** Resolves when nothing waits any more, or nobody is there to take it. */
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
