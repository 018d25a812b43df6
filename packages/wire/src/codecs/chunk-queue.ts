const EMPTY = Buffer.alloc(0);

/** Received chunks that are not fully scanned; normally one, more only while the decoder is paused. */
export class ChunkQueue {
  /** The chunk being scanned and the position in it. Scanners advance `at` themselves. */
  chunk: Buffer = EMPTY;
  at = 0;
  #waiting: Buffer[] = [];
  #head = 0;

  push(chunk: Buffer): void {
    if (this.at === this.chunk.length && this.#waiting.length === 0) {
      this.chunk = chunk;
      this.at = 0;
    } else this.#waiting.push(chunk);
  }

  /**
   * Moves to the next chunk when this one is fully scanned. Returns false if no bytes are left. A finished chunk is
   * released immediately, because it may be a large buffer.
   */
  advance(): boolean {
    while (this.at === this.chunk.length) {
      if (this.#head === this.#waiting.length) {
        this.#waiting = [];
        this.#head = 0;
        this.chunk = EMPTY;
        this.at = 0;
        return false;
      }
      this.chunk = this.#waiting[this.#head]!;
      this.#waiting[this.#head++] = EMPTY;
      this.at = 0;
    }
    return true;
  }
}
