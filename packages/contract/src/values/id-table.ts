/**
 * What is in flight, by id: a Map that lets go of what was deleted. V8 links every table that a Map outgrows to the
 * next one, so under a steady coming and going one table that grew old keeps alive all that was added after it,
 * until the next full collection. Here the Map holds only places in an array, and a place is emptied when its entry goes.
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
    // Looking up a string that was just parsed is dear; a side that answers at once has nothing in flight.
    return this.#places.size > 0 && this.#places.has(id);
  }

  /** Takes the place of what had this id. */
  add(id: Id, value: T): void {
    const place = this.#places.get(id) ?? this.#newPlace(id);
    this.#values[place] = value;
  }

  /** The value that was there. */
  delete(id: Id): T | undefined {
    const place = this.#places.get(id);
    if (place === undefined) return undefined;
    this.#places.delete(id);
    const value = this.#values[place];
    this.#values[place] = undefined;
    this.#free.push(place);
    return value;
  }

  /** All at this moment. */
  ids(): Id[] {
    return [...this.#places.keys()];
  }

  /** All at this moment. */
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
