/**
 * A table for objects in flight that releases deleted values. When a Map outgrows its backing table, V8 links the old
 * table to the new one; under steady insertion and deletion, an old table therefore keeps later values alive until the
 * next full collection. Here the Map holds only array positions, and a position is cleared when its entry is deleted.
 */
export class IdTable<T extends object, Id extends string | number = string> {
  readonly #slots = new Map<Id, number>();
  readonly #values: (T | undefined)[] = [];
  readonly #free: number[] = [];

  get size(): number {
    return this.#slots.size;
  }

  get(id: Id): T | undefined {
    if (this.#slots.size === 0) return undefined;
    const slot = this.#slots.get(id);
    return slot === undefined ? undefined : this.#values[slot];
  }

  has(id: Id): boolean {
    // The check of the size avoids hashing a freshly parsed string, which is expensive. A peer that answers
    // synchronously has nothing in flight.
    return this.#slots.size > 0 && this.#slots.has(id);
  }

  /** Replaces an existing value with this id. */
  set(id: Id, value: T): void {
    const slot = this.#slots.get(id) ?? this.#newSlot(id);
    this.#values[slot] = value;
  }

  /** Returns the deleted value. */
  delete(id: Id): T | undefined {
    const slot = this.#slots.get(id);
    if (slot === undefined) return undefined;
    this.#slots.delete(id);
    const value = this.#values[slot];
    this.#values[slot] = undefined;
    this.#free.push(slot);
    return value;
  }

  /** A snapshot of the current content. */
  ids(): Id[] {
    return [...this.#slots.keys()];
  }

  /** A snapshot of the current content. */
  values(): T[] {
    return this.#values.filter((value) => value !== undefined);
  }

  clear(): void {
    this.#slots.clear();
    this.#values.length = 0;
    this.#free.length = 0;
  }

  #newSlot(id: Id): number {
    const slot = this.#free.pop() ?? this.#values.length;
    this.#slots.set(id, slot);
    return slot;
  }
}
