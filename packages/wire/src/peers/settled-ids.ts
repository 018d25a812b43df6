/**
 * Remembers how recent requests ended, to tell a second reply from a stranger's. Holds between one and two
 * generations of ids, so memory is bounded and no id costs more than a map entry.
 */
export type Ending = "replied" | "abandoned";

const GENERATION = 4_096;

export class SettledIds {
  #recent = new Map<string, Ending>();
  #older = new Map<string, Ending>();

  add(id: string, ending: Ending): void {
    if (this.#recent.size >= GENERATION) {
      this.#older = this.#recent;
      this.#recent = new Map();
    }
    this.#recent.set(id, ending);
  }

  get(id: string): Ending | undefined {
    return this.#recent.get(id) ?? this.#older.get(id);
  }
}
