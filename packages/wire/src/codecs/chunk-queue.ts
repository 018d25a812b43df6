/** The chunks that arrived and are not scanned to their end; normally one, more only while the decoder waits. */
const EMPTY = Buffer.alloc(0);

export class ChunkQueue {
  /** The chunk being scanned, and how far. Scanners move `at` themselves. */
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

  /** True: there is a byte at `at`. Lets go of a finished chunk at once, it may be a large buffer. */
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
