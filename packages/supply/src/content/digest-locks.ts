/** Runs the work on one digest one after the other; other digests do not wait. */
export class DigestLocks {
  readonly #last = new Map<string, Promise<unknown>>();

  async run<T>(digest: string, work: () => Promise<T>): Promise<T> {
    const before = this.#last.get(digest) ?? Promise.resolve();
    const mine = before.then(work, work);
    this.#last.set(digest, mine);
    try {
      return await mine;
    } finally {
      if (this.#last.get(digest) === mine) this.#last.delete(digest);
    }
  }
}
