/** What a server says unasked, counted by the second. */

/** More is a flood and counts as broken rules. */
const NOTICES_PER_SECOND = 200;

export class NoticeRate {
  #second = 0;
  #count = 0;

  /** Counts one more. False: it is one too many for this second. */
  take(): boolean {
    const second = Math.floor(performance.now() / 1_000);
    if (this.#second !== second) {
      this.#second = second;
      this.#count = 0;
    }
    return ++this.#count <= NOTICES_PER_SECOND;
  }
}
