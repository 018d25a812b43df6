/**
 * Which processes there are: all of them until they are gone, by key those that a next call may be given, and for each
 * folder that lasts the newest process that has it. A key has one process at most; who lost its key serves no new call.
 */
import type { Worker } from "./worker.ts";

export class Roster {
  readonly #all = new Set<Worker>();
  readonly #byKey = new Map<string, Worker>();
  readonly #keepers = new Map<string, Worker>();

  get all(): Iterable<Worker> {
    return this.#all;
  }

  /** Processes that exist, stopping ones included. */
  get size(): number {
    let count = 0;
    for (const { process } of this.#all) if (process.pid !== undefined) count++;
    return count;
  }

  find(key: string): Worker | undefined {
    return this.#byKey.get(key);
  }

  /** Whether it still may be given calls by its key. */
  offers(worker: Worker): boolean {
    return this.#byKey.get(worker.key) === worker;
  }

  /** Who has the folder at this moment. */
  keeper(folder: string): Worker | undefined {
    return this.#keepers.get(folder);
  }

  add(worker: Worker, folder: string | null): void {
    this.#all.add(worker);
    if (folder !== null) this.#keepers.set(folder, worker);
    if (worker.pooled) this.#byKey.set(worker.key, worker);
  }

  /** No new call is given this process. */
  drop(worker: Worker): void {
    if (this.offers(worker)) this.#byKey.delete(worker.key);
  }

  remove(worker: Worker, folder: string | null): void {
    this.drop(worker);
    this.#all.delete(worker);
    if (folder !== null && this.#keepers.get(folder) === worker) this.#keepers.delete(folder);
  }

  /** Drops those that are meant, and answers them. */
  dropWhere(meant: (worker: Worker) => boolean): Worker[] {
    const dropped: Worker[] = [];
    for (const [key, worker] of this.#byKey) {
      if (!meant(worker)) continue;
      this.#byKey.delete(key);
      dropped.push(worker);
    }
    return dropped;
  }

  dropAll(): void {
    this.#byKey.clear();
  }

  longestIdle(): Worker | undefined {
    let oldest: Worker | undefined;
    for (const worker of this.#byKey.values()) {
      if (!worker.idle) continue;
      if (oldest === undefined || worker.idle_since < oldest.idle_since) oldest = worker;
    }
    return oldest;
  }
}
