/**
 * The two ends of a pipe inside one process, for our own tests and those of plugin authors (runPlugin in the SDK). Like
 * a real pipe, it delivers asynchronously, never during write(), keeps order, and buffers bytes while the reader is
 * paused.
 */
import type { Transport } from "./transport.ts";

const HIGH_WATER = 64 * 1024;

export function memoryTransportPair(): [Transport, Transport] {
  const left = new MemoryEnd();
  const right = new MemoryEnd();
  left.connect(right);
  right.connect(left);
  return [left, right];
}

class MemoryEnd implements Transport {
  #other: MemoryEnd | undefined;
  /** Written by the other end and not delivered yet. */
  readonly #inbox: Uint8Array[] = [];
  #inbox_bytes = 0;
  #onData: ((chunk: Uint8Array) => void) | undefined;
  #onDrain: (() => void) | undefined;
  #onClose: ((error: Error | null) => void) | undefined;
  #paused = false;
  #scheduled = false;
  #other_ended = false;
  #ended = false;
  #close_reported = false;
  #waits_for_drain = false;

  connect(other: MemoryEnd): void {
    this.#other = other;
  }

  get queuedBytes(): number {
    return this.#other!.#inbox_bytes;
  }

  write(data: string | Uint8Array): boolean {
    if (this.#ended) return true;
    const chunk = typeof data === "string" ? Buffer.from(data) : Uint8Array.prototype.slice.call(data);
    const other = this.#other!;
    other.#inbox.push(chunk);
    other.#inbox_bytes += chunk.length;
    other.#schedule();
    this.#waits_for_drain = other.#inbox_bytes > HIGH_WATER;
    return !this.#waits_for_drain;
  }

  onData(listener: (chunk: Uint8Array) => void): void {
    this.#onData = listener;
    this.#schedule();
  }

  onDrain(listener: () => void): void {
    this.#onDrain = listener;
  }

  onClose(listener: (error: Error | null) => void): void {
    this.#onClose = listener;
    this.#schedule();
  }

  pause(): void {
    this.#paused = true;
  }

  resume(): void {
    this.#paused = false;
    this.#schedule();
  }

  close(): void {
    if (this.#ended) return;
    this.#ended = true;
    this.#other!.#other_ended = true;
    this.#other!.#schedule();
  }

  #schedule(): void {
    if (this.#scheduled || this.#onData === undefined) return;
    this.#scheduled = true;
    queueMicrotask(() => {
      this.#scheduled = false;
      this.#deliver();
    });
  }

  #deliver(): void {
    for (let chunk = this.#next(); chunk !== undefined; chunk = this.#next()) {
      this.#inbox_bytes -= chunk.length;
      this.#onData!(chunk);
    }
    if (this.#inbox_bytes === 0) this.#other!.#reportDrain();
    if (
      this.#other_ended &&
      !this.#paused &&
      this.#inbox.length === 0 &&
      !this.#close_reported &&
      this.#onClose
    ) {
      this.#close_reported = true;
      this.#onClose(null);
    }
  }

  #next(): Uint8Array | undefined {
    return this.#paused ? undefined : this.#inbox.shift();
  }

  #reportDrain(): void {
    if (!this.#waits_for_drain) return;
    this.#waits_for_drain = false;
    this.#onDrain?.();
  }
}
