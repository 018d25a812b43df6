const INITIAL_BYTES = 16 * 1024;

/**
 * Assembles the bytes of one frame from chunks. The buffer grows with the received bytes, to at most twice their size
 * or INITIAL_BYTES, and never with the announced length. On average, each byte is copied a constant number of times,
 * whatever the size of the chunks.
 */
export class FrameAssembly {
  #buffer: Buffer | undefined;
  #length = 0;

  get length(): number {
    return this.#length;
  }

  /** `max_bytes` is the maximum size of the frame; the buffer does not grow beyond it. */
  add(bytes: Buffer, max_bytes: number): void {
    const needed = this.#length + bytes.length;
    if (this.#buffer === undefined || this.#buffer.length < needed) {
      const grown = Buffer.allocUnsafeSlow(
        Math.max(needed, Math.min(max_bytes, Math.max(INITIAL_BYTES, needed * 2))),
      );
      if (this.#buffer !== undefined) this.#buffer.copy(grown, 0, 0, this.#length);
      this.#buffer = grown;
    }
    bytes.copy(this.#buffer, this.#length);
    this.#length = needed;
  }

  peek(): Buffer {
    return this.#buffer === undefined ? Buffer.alloc(0) : this.#buffer.subarray(0, this.#length);
  }

  take(): Buffer {
    const bytes = this.peek();
    this.#buffer = undefined;
    this.#length = 0;
    return bytes;
  }
}
