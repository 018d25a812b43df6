/** Serializes the work on each digest. */
export class DigestLocks {
  readonly #last = new Map<string, Promise<unknown>>();

  async run<T>(digest: string, work: () => Promise<T>): Promise<T> {
    const previous = this.#last.get(digest) ?? Promise.resolve();
    const current = previous.then(work, work);
    this.#last.set(digest, current);
    try {
      return await current;
    } finally {
      if (this.#last.get(digest) === current) this.#last.delete(digest);
    }
  }
}
