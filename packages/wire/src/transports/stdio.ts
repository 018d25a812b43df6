/**
 * A transport over a pair of streams: the stdout and stdin of a child, or stdin and stdout of this process. Each stream
 * always has an error listener, so that a broken pipe (EPIPE, ECONNRESET) never crashes the process.
 *
 * A broken writing side does not end the transport immediately, because a process may close its input and still answer.
 * It is reported through onClose, with its error, on the next write.
 */
import type { Readable, Writable } from "node:stream";
import type { Transport } from "./transport.ts";

export function stdioTransport(readable: Readable, writable: Writable): Transport {
  return new StdioTransport(readable, writable);
}

class StdioTransport implements Transport {
  readonly #readable: Readable;
  readonly #writable: Writable;
  #onDrain: (() => void) | undefined;
  #onClose: ((error: Error | null) => void) | undefined;
  /** Set when the reading side has ended, or when a write found the pipe broken. */
  #closed: { error: Error | null } | undefined;
  #close_reported = false;
  #broken: Error | undefined;

  constructor(readable: Readable, writable: Writable) {
    this.#readable = readable;
    this.#writable = writable;
    readable.on("error", (error) => this.#end(error));
    readable.on("end", () => this.#end(null));
    readable.on("close", () => this.#end(null));
    writable.on("error", (error) => {
      this.#broken ??= error;
      // A caller that waits for onDrain must be woken; its next write reports the end.
      this.#onDrain?.();
    });
    writable.on("drain", () => this.#onDrain?.());
  }

  get queuedBytes(): number {
    return this.#broken === undefined ? this.#writable.writableLength : 0;
  }

  write(data: string | Uint8Array): boolean {
    if (this.#broken !== undefined || this.#writable.destroyed || this.#writable.writableEnded) {
      const error = this.#broken ?? new Error("the pipe to the other side is closed");
      setImmediate(() => this.#end(error));
      return true;
    }
    return this.#writable.write(data);
  }

  onData(listener: (chunk: Uint8Array) => void): void {
    this.#readable.on("data", listener);
  }

  onDrain(listener: () => void): void {
    this.#onDrain = listener;
  }

  onClose(listener: (error: Error | null) => void): void {
    this.#onClose = listener;
    if (this.#closed !== undefined) queueMicrotask(() => this.#reportClosed());
  }

  pause(): void {
    this.#readable.pause();
  }

  resume(): void {
    this.#readable.resume();
  }

  close(): void {
    if (!this.#writable.writableEnded) this.#writable.end();
  }

  #end(error: Error | null): void {
    this.#closed ??= { error };
    this.#reportClosed();
  }

  #reportClosed(): void {
    if (this.#close_reported || this.#onClose === undefined || this.#closed === undefined) return;
    this.#close_reported = true;
    this.#onClose(this.#closed.error);
  }
}
