/**
 * Collects frames and hands them to the transport in few writes: with many calls in flight the system call,
 * not the encoding, is what a frame costs. Order is kept. While the transport is full, batches wait here,
 * where they can be counted; a stream's own count falls only when a whole group of writes is done.
 */
import { Buffer } from "node:buffer";
import { nextTick } from "node:process";
import { BackplaneError } from "@backplane/contract";
import type { Transport } from "../transports/transport.ts";
import { stringifyFrame } from "./encode.ts";

export type Framing = "content-length" | "ndjson";

/**
 * A batch this large goes out before the turn ends: the other side works on it while we make the next one.
 * Measured: much less costs system calls, much more makes the two sides wait for each other in turns.
 */
const BATCH_CHARACTERS = 16 * 1024;
const WRITE_CHARACTERS = 64 * 1024;

export class FrameWriter {
  readonly #transport: Transport;
  readonly #framing: Framing;
  readonly #frameBytes: number;
  readonly #waiting: string[] = [];
  #waitingCharacters = 0;
  #batch = "";
  #scheduled = false;
  #full = false;
  readonly #turnEnded = (): void => {
    this.#scheduled = false;
    this.#endBatch();
  };

  constructor(transport: Transport, framing: Framing, frameBytes: number, onDrained: () => void) {
    this.#transport = transport;
    this.#framing = framing;
    this.#frameBytes = frameBytes;
    transport.onDrain(() => {
      this.#full = false;
      this.#writeWaiting(false);
      if (!this.#full) onDrained();
    });
  }

  /** Not yet taken by the other side; characters stand for bytes where text is not encoded yet. */
  get queuedBytes(): number {
    return this.#transport.queuedBytes + this.#waitingCharacters + this.#batch.length;
  }

  /** Throws `frame_too_large` before anything is queued; the other side would refuse the frame and end. */
  send(frame: object): void {
    const body = stringifyFrame(frame);
    const bytes = Buffer.byteLength(body);
    if (bytes > this.#frameBytes) {
      throw new BackplaneError(
        "frame_too_large",
        `The message has ${bytes} bytes; the limit is ${this.#frameBytes}.`,
        { details: { bytes, limit: this.#frameBytes } },
      );
    }
    this.#batch += this.#framing === "ndjson" ? `${body}\n` : `Content-Length: ${bytes}\r\n\r\n${body}`;
    if (this.#batch.length > BATCH_CHARACTERS) this.#endBatch();
    else if (!this.#scheduled) {
      this.#scheduled = true;
      // After the promises that this callback settles: the frames that they send share the write.
      nextTick(this.#turnEnded);
    }
  }

  /** Hands over everything now, whether the transport is full or not; for the last frames of a side. */
  flush(): void {
    this.#endBatch();
    this.#writeWaiting(true);
  }

  #endBatch(): void {
    const batch = this.#batch;
    if (batch === "") return;
    this.#batch = "";
    if (this.#full) {
      this.#waiting.push(batch);
      this.#waitingCharacters += batch.length;
    } else this.#full = !this.#transport.write(batch);
  }

  #writeWaiting(evenIfFull: boolean): void {
    while (this.#waiting.length > 0 && (evenIfFull || !this.#full)) {
      let count = 0;
      let text = "";
      while (count < this.#waiting.length && text.length < WRITE_CHARACTERS) text += this.#waiting[count++];
      this.#waiting.splice(0, count);
      this.#waitingCharacters -= text.length;
      this.#full = !this.#transport.write(text);
    }
  }
}
