/**
 * All existing workers, those available to calls by key, and the newest worker of each data folder. A key has at
 * most one available worker. A worker that lost its key gets no new calls.
 */
import type { Worker } from "./worker.ts";

export class WorkerTable {
  readonly #all = new Set<Worker>();
  readonly #by_key = new Map<string, Worker>();
  readonly #folder_owners = new Map<string, Worker>();

  get all(): Iterable<Worker> {
    return this.#all;
  }

  /** Existing processes, including those that are stopping. */
  get size(): number {
    let count = 0;
    for (const { process } of this.#all) if (process.pid !== undefined) count++;
    return count;
  }

  find(key: string): Worker | undefined {
    return this.#by_key.get(key);
  }

  /** Whether new calls can find the worker by its key. */
  isAvailable(worker: Worker): boolean {
    return this.#by_key.get(worker.key) === worker;
  }

  /** The newest worker that uses the data folder. */
  findFolderOwner(folder: string): Worker | undefined {
    return this.#folder_owners.get(folder);
  }

  add(worker: Worker, folder: string | null): void {
    this.#all.add(worker);
    if (folder !== null) this.#folder_owners.set(folder, worker);
    if (worker.pooled) this.#by_key.set(worker.key, worker);
  }

  /** Stops new calls from finding this worker. */
  withdraw(worker: Worker): void {
    if (this.isAvailable(worker)) this.#by_key.delete(worker.key);
  }

  remove(worker: Worker, folder: string | null): void {
    this.withdraw(worker);
    this.#all.delete(worker);
    if (folder !== null && this.#folder_owners.get(folder) === worker) this.#folder_owners.delete(folder);
  }

  /** Withdraws all matching workers and returns them. */
  withdrawWhere(matches: (worker: Worker) => boolean): Worker[] {
    const withdrawn: Worker[] = [];
    for (const [key, worker] of this.#by_key) {
      if (!matches(worker)) continue;
      this.#by_key.delete(key);
      withdrawn.push(worker);
    }
    return withdrawn;
  }

  withdrawAll(): void {
    this.#by_key.clear();
  }

  findLongestIdle(): Worker | undefined {
    let oldest: Worker | undefined;
    for (const worker of this.#by_key.values()) {
      if (!worker.idle) continue;
      if (oldest === undefined || worker.idle_since < oldest.idle_since) oldest = worker;
    }
    return oldest;
  }
}
