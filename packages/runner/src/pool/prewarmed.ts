/**
 * Processes of isolated exports ahead of their call: launched, introduced, given nothing yet, handed out once and never
 * taken back. A pool key has one spare after its first call, more where calls come faster than spares are made, and none
 * once nobody called for the idle time. Over all keys their number and their memory are bounded, and a call that needs
 * the room always gets it.
 */
import type { Clock, Logger } from "@backplane/ports";
import type { Dialect, ProcessOrder } from "../ports/dialect.ts";
import type { RunnerLimits } from "../ports/settings.ts";
import { privateBytes } from "../procfs/private-memory.ts";
import type { Deadline, Deadlines } from "../time/deadlines.ts";
import type { Worker } from "./worker.ts";

export interface SpareDeps {
  clock: Clock;
  deadlines: Deadlines;
  limits: RunnerLimits;
  log: Logger;
  create(order: ProcessOrder, dialect: Dialect): Worker;
  /** Whether another process may be started without taking room that a call waits for. */
  room(): boolean;
}

interface Shelf {
  order: ProcessOrder;
  dialect: Dialect;
  /** Launching or ready, oldest first. */
  spares: Spare[];
  /** How many there should be. */
  target: number;
  used_at: number;
  /** What one of them took at last; null until one was measured. */
  bytes: number | null;
  fill: Deadline | null;
  idle: Deadline | null;
}

interface Spare {
  worker: Worker;
  bytes: number;
}

/** Starting a process holds the event loop for milliseconds; the call that was just served goes first. */
const FILL_AFTER_MS = 10;
/** All processes are taken by calls: when to look again. */
const NO_ROOM_MS = 100;
/** What a process is believed to take before the first of its kind was measured. */
const FIRST_GUESS_BYTES = 48 * 1024 * 1024;

export class Spares {
  readonly #deps: SpareDeps;
  readonly #shelves = new Map<string, Shelf>();
  #closed = false;

  constructor(deps: SpareDeps) {
    this.#deps = deps;
  }

  /** Those that have introduced themselves. */
  get ready(): number {
    return this.#count(({ worker }) => worker.process.state === "ready");
  }

  /** A process for this call, or none; either way the next one is seen to. */
  take(order: ProcessOrder, dialect: Dialect): Worker | null {
    if (this.#closed || this.#deps.limits.prewarmed === 0) return null;
    const shelf = this.#shelfOf(order, dialect);
    shelf.used_at = this.#deps.clock.monotonic();
    const ready = shelf.spares.find(({ worker }) => worker.process.state === "ready");
    // One that is on its way is there sooner than one that is begun now.
    const taken = ready ?? shelf.spares.find(({ worker }) => worker.process.pid !== undefined);
    if (taken !== undefined) shelf.spares.splice(shelf.spares.indexOf(taken), 1);
    if (ready === undefined) shelf.target = Math.min(shelf.target + 1, this.#deps.limits.prewarmed_per_key);
    shelf.fill ??= this.#deps.deadlines.set(FILL_AFTER_MS, () => this.#fill(shelf));
    return taken?.worker ?? null;
  }

  /** Its binding changed: spares of other keys are of no use. */
  retire(binding_id: string, keep_pool_key?: string): void {
    for (const [key, shelf] of this.#shelves) {
      if (shelf.order.binding_id === binding_id && key !== keep_pool_key)
        this.#clear(shelf, "its binding changed");
    }
  }

  /** Gives one up for somebody who needs the room; false: there is none. */
  yield(): boolean {
    const shelf = this.#longestUnused(null);
    const spare = shelf?.spares.shift();
    spare?.worker.process.kill("room for a call is needed");
    return spare !== undefined;
  }

  close(): void {
    this.#closed = true;
    for (const shelf of this.#shelves.values()) this.#clear(shelf, "the gateway is shutting down");
  }

  #shelfOf(order: ProcessOrder, dialect: Dialect): Shelf {
    const known = this.#shelves.get(order.pool_key);
    if (known !== undefined) return known;
    const shelf: Shelf = {
      order: withoutCall(order),
      dialect,
      spares: [],
      target: 0,
      used_at: 0,
      bytes: null,
      fill: null,
      idle: null,
    };
    this.#shelves.set(order.pool_key, shelf);
    this.#watchIdle(shelf);
    return shelf;
  }

  #fill(shelf: Shelf): void {
    shelf.fill = null;
    if (this.#closed || shelf.spares.length >= shelf.target || !this.#makeRoom(shelf)) return;
    const room = this.#deps.room();
    if (room) this.#add(shelf);
    if (shelf.spares.length >= shelf.target) return;
    // One at a time: whoever else has something to do comes in between.
    shelf.fill = this.#deps.deadlines.set(room ? 1 : NO_ROOM_MS, () => this.#fill(shelf));
  }

  #add(shelf: Shelf): void {
    const worker = this.#deps.create(shelf.order, shelf.dialect);
    const spare: Spare = { worker, bytes: shelf.bytes ?? FIRST_GUESS_BYTES };
    shelf.spares.push(spare);
    const gone = () => {
      const at = shelf.spares.indexOf(spare);
      if (at >= 0) shelf.spares.splice(at, 1);
    };
    void worker.process.gone.then(gone);
    worker.process.ready.then(() => this.#weigh(shelf, spare), gone);
  }

  /** A guess becomes a measure, and what is too heavy after all goes again. */
  async #weigh(shelf: Shelf, spare: Spare): Promise<void> {
    const { pid } = spare.worker.process;
    if (pid === undefined) return;
    spare.bytes = await privateBytes(pid);
    shelf.bytes = spare.bytes;
    if (this.#bytes() <= this.#deps.limits.prewarmed_bytes || !shelf.spares.includes(spare)) return;
    shelf.spares.splice(shelf.spares.indexOf(spare), 1);
    shelf.target = Math.max(0, shelf.target - 1);
    spare.worker.process.kill("processes ahead of their call take too much memory");
  }

  /** The longest unused key gives way to one that is used now. */
  #makeRoom(shelf: Shelf): boolean {
    const { prewarmed, prewarmed_bytes } = this.#deps.limits;
    const bytes = shelf.bytes ?? FIRST_GUESS_BYTES;
    while (this.#count(() => true) >= prewarmed || this.#bytes() + bytes > prewarmed_bytes) {
      const other = this.#longestUnused(shelf);
      const given = other?.spares.shift();
      if (given === undefined) return false;
      given.worker.process.kill("another plugin is called more often");
    }
    return true;
  }

  #longestUnused(but: Shelf | null): Shelf | undefined {
    let oldest: Shelf | undefined;
    for (const shelf of this.#shelves.values()) {
      if (shelf === but || shelf.spares.length === 0) continue;
      if (oldest === undefined || shelf.used_at < oldest.used_at) oldest = shelf;
    }
    return oldest;
  }

  #count(counts: (spare: Spare) => boolean): number {
    let count = 0;
    for (const { spares } of this.#shelves.values()) count += spares.filter(counts).length;
    return count;
  }

  #bytes(): number {
    let sum = 0;
    for (const { spares } of this.#shelves.values()) for (const { bytes } of spares) sum += bytes;
    return sum;
  }

  #watchIdle(shelf: Shelf): void {
    const { clock, deadlines, limits } = this.#deps;
    const check = () => {
      const rest = shelf.used_at + limits.idle_ms - clock.monotonic();
      if (rest <= 0) this.#clear(shelf, "it was idle");
      else shelf.idle = deadlines.set(rest, check);
    };
    shelf.idle = deadlines.set(limits.idle_ms, check);
  }

  #clear(shelf: Shelf, reason: string): void {
    this.#shelves.delete(shelf.order.pool_key);
    shelf.target = 0;
    for (const entry of [shelf.fill, shelf.idle]) if (entry !== null) this.#deps.deadlines.clear(entry);
    // They hold nothing that would have to be said goodbye to.
    for (const { worker } of shelf.spares.splice(0)) worker.process.kill(reason);
  }
}

/** An order holds its call's secrets and input; what waits for another call must not. */
function withoutCall({
  package: pkg,
  pool_key,
  binding_id,
  grant,
  class: isolation,
  context,
}: ProcessOrder): ProcessOrder {
  const { org_id, config } = context;
  return {
    package: pkg,
    pool_key,
    binding_id,
    grant,
    class: isolation,
    context: { org_id, config, secrets: {}, grant },
  };
}
