const FIRST_BYTES = 4096;

/**
 * A ring buffer of the last bytes of a process's stderr. Appending costs only the size of the chunk, and memory
 * grows with the output up to `capacity`. Positions count all bytes ever written, so that each call can read what
 * was written since it started.
 */
export class StderrRing {
  readonly #capacity: number;
  #bytes: Buffer = Buffer.alloc(0);
  #total = 0;

  constructor(capacity: number) {
    this.#capacity = capacity;
  }

  /** The number of bytes ever written, which is the position of the next one. */
  get total(): number {
    return this.#total;
  }

  append(chunk: Uint8Array): void {
    const tail = chunk.length > this.#capacity ? chunk.subarray(chunk.length - this.#capacity) : chunk;
    this.#grow(Math.min(this.#total + chunk.length, this.#capacity));
    const size = this.#bytes.length;
    if (size === 0) return;
    const at = (this.#total + chunk.length - tail.length) % size;
    const first = Math.min(tail.length, size - at);
    this.#bytes.set(tail.subarray(0, first), at);
    if (first < tail.length) this.#bytes.set(tail.subarray(first), 0);
    this.#total += chunk.length;
  }

  /**
   * Returns the bytes written since position `from` that are still buffered, at most the last `max` bytes.
   */
  since(from: number, max: number = this.#capacity): Buffer {
    const start = Math.max(from, this.#total - Math.min(max, this.#bytes.length), 0);
    const length = this.#total - start;
    if (length <= 0) return Buffer.alloc(0);
    const size = this.#bytes.length;
    const at = start % size;
    if (at + length <= size) return Buffer.from(this.#bytes.subarray(at, at + length));
    return Buffer.concat([this.#bytes.subarray(at), this.#bytes.subarray(0, at + length - size)]);
  }

  /** Before the capacity is reached nothing has wrapped around, so growing is a plain copy. */
  #grow(needed: number): void {
    if (needed <= this.#bytes.length) return;
    let size = Math.max(this.#bytes.length * 2, FIRST_BYTES);
    while (size < needed) size *= 2;
    const grown = Buffer.alloc(Math.min(size, this.#capacity));
    grown.set(this.#bytes.subarray(0, Math.min(this.#total, this.#bytes.length)));
    this.#bytes = grown;
  }
}
