/**
 * A table for objects in flight that releases deleted values. When a Map outgrows its backing table, V8 links the old
 * table to the new one; under steady insertion and deletion, an old table therefore keeps later values alive until the
 * next full collection. Here the Map holds only array positions, and a position is cleared when its entry is deleted.
 */
export class IdTable<T extends object, Id extends string | number = string> {
  readonly #places = new Map<Id, number>();
  readonly #values: (T | undefined)[] = [];
  readonly #free: number[] = [];

  get size(): number {
    return this.#places.size;
  }

  get(id: Id): T | undefined {
    if (this.#places.size === 0) return undefined;
    const place = this.#places.get(id);
    return place === undefined ? undefined : this.#values[place];
  }

  has(id: Id): boolean {
    // Hashing a freshly parsed string is expensive; a peer that answers synchronously has nothing in flight.
    return this.#places.size > 0 && this.#places.has(id);
  }

  /** Replaces an existing value of this id. */
  add(id: Id, value: T): void {
    const place = this.#places.get(id) ?? this.#newPlace(id);
    this.#values[place] = value;
  }

  /** Returns the deleted value. */
  delete(id: Id): T | undefined {
    const place = this.#places.get(id);
    if (place === undefined) return undefined;
    this.#places.delete(id);
    const value = this.#values[place];
    this.#values[place] = undefined;
    this.#free.push(place);
    return value;
  }

  /** A snapshot of the current content. */
  ids(): Id[] {
    return [...this.#places.keys()];
  }

  /** A snapshot of the current content. */
  values(): T[] {
    return this.#values.filter((value) => value !== undefined);
  }

  clear(): void {
    this.#places.clear();
    this.#values.length = 0;
    this.#free.length = 0;
  }

  #newPlace(id: Id): number {
    const place = this.#free.pop() ?? this.#values.length;
    this.#places.set(id, place);
    return place;
  }
}
