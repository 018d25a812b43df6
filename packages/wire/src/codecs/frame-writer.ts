/**
 * Collects frames and passes them to the transport in few writes: with many calls in flight, the system call for a
 * frame costs more than encoding it (benchmark wire.warm-call). Order is kept. While the transport is full, batches are
 * queued here, because the `writableLength` of a stream drops only after a whole group of writes.
 */
import { Buffer } from "node:buffer";
import { nextTick } from "node:process";
import { BackplaneError } from "@backplane/contract";
import type { Transport } from "../transports/transport.ts";
import { stringifyFrame } from "./encode.ts";

export type Framing = "content-length" | "ndjson";

/**
 * A larger batch is written before the turn ends, so that the peer can process it meanwhile. Measured: a lower value
 * costs more system calls, a higher value makes the two sides wait for each other.
 */
const BATCH_CHARACTERS = 16 * 1024;
const WRITE_CHARACTERS = 64 * 1024;

export class FrameWriter {
  readonly #transport: Transport;
  readonly #framing: Framing;
  readonly #frame_bytes: number;
  readonly #waiting: string[] = [];
  #waiting_characters = 0;
  #batch = "";
  #scheduled = false;
  #full = false;
  readonly #onTurnEnd = (): void => {
    this.#scheduled = false;
    this.#endBatch();
  };

  constructor(transport: Transport, framing: Framing, frame_bytes: number, onDrained: () => void) {
    this.#transport = transport;
    this.#framing = framing;
    this.#frame_bytes = frame_bytes;
    transport.onDrain(() => {
      this.#full = false;
      this.#writeWaiting(false);
      if (!this.#full) onDrained();
    });
  }

  /** Bytes that are still queued; text that is not encoded yet is counted in characters. */
  get queuedBytes(): number {
    return this.#transport.queuedBytes + this.#waiting_characters + this.#batch.length;
  }

  /** Throws `frame_too_large` before anything is queued, because the peer would reject the frame and disconnect. */
  send(frame: object): void {
    const body = stringifyFrame(frame);
    const bytes = Buffer.byteLength(body);
    if (bytes > this.#frame_bytes) {
      throw new BackplaneError(
        "frame_too_large",
        `The message has ${bytes} bytes; the limit is ${this.#frame_bytes}.`,
        { details: { bytes, limit: this.#frame_bytes } },
      );
    }
    this.#batch += this.#framing === "ndjson" ? `${body}\n` : `Content-Length: ${bytes}\r\n\r\n${body}`;
    if (this.#batch.length > BATCH_CHARACTERS) this.#endBatch();
    else if (!this.#scheduled) {
      this.#scheduled = true;
      // If a promise reaction calls `send`, the tick follows the reactions that are already queued, so their frames
      // share the write.
      nextTick(this.#onTurnEnd);
    }
  }

  /** Writes everything immediately, even if the transport is full; for the last frames of a connection. */
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
      this.#waiting_characters += batch.length;
    } else this.#full = !this.#transport.write(batch);
  }

  #writeWaiting(even_if_full: boolean): void {
    while (this.#waiting.length > 0 && (even_if_full || !this.#full)) {
      let count = 0;
      let text = "";
      while (count < this.#waiting.length && text.length < WRITE_CHARACTERS) text += this.#waiting[count++];
      this.#waiting.splice(0, count);
      this.#waiting_characters -= text.length;
      this.#full = !this.#transport.write(text);
    }
  }
}
