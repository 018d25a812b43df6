export type RequestEnding = "replied" | "abandoned";

const GENERATION_SIZE = 4_096;

/**
 * Remembers how recent requests ended, to distinguish a second reply from a reply with an unknown id. Holds at most two
 * generations of ids, so memory is bounded.
 */
export class SettledIds {
  #recent = new Map<string, RequestEnding>();
  #older = new Map<string, RequestEnding>();

  add(id: string, ending: RequestEnding): void {
    if (this.#recent.size >= GENERATION_SIZE) {
      this.#older = this.#recent;
      this.#recent = new Map();
    }
    this.#recent.set(id, ending);
  }

  get(id: string): RequestEnding | undefined {
    return this.#recent.get(id) ?? this.#older.get(id);
  }
}
