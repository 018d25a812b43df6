/**
 * Enforces max_concurrency per binding, or per tool of a binding of a whole package (bind.concurrency). A call first
 * joins the local queue, which is bounded, and then gets one of the slots. Slots are leases in the store: gateways
 * share one count, and the slots of a dead gateway become free when they expire. Each node serves its queue in order.
 *
 * A released slot passes directly to the next call in the queue. A slot that was held for more than a second is
 * released to the store first, so that a busy node does not starve the others.
 */
import type { KernelDeps, Timer } from "@backplane/ports";

export const SLOT_TTL_MS = 30_000;
const POLL_MS = 100;
const MAX_HOLD_MS = 1_000;

interface Slot {
  name: string;
  /** When this node leased the slot, on the monotonic clock. */
  since: number;
}

interface ConcurrencyLimit {
  name: string;
  max: number;
  /** Calls that are queued or running. */
  reserved: number;
  running: number;
  /** Gives a slot to each waiting call. */
  queue: ((slot: Slot) => void)[];
  /** Released slots that have not been passed to a waiting call yet. */
  spare: Slot[];
  serving: boolean;
  timer: Timer | null;
}

/** The position of one call in the queue, and later its slot. */
export interface SlotReservation {
  /** Resolves with true once the slot is held, or with false if `deadline` (monotonic) or an interrupt comes first. */
  acquire(deadline: number, onInterrupt: (interrupt: () => void) => void): Promise<boolean>;
  /** Ends the reservation and releases the slot. Must not be called while `acquire` is pending. Safe to call twice. */
  release(): void;
}

export class ConcurrencyLimits {
  readonly #deps: KernelDeps;
  readonly #limits = new Map<string, ConcurrencyLimit>();
  readonly #held_slots = new Set<string>();

  constructor(deps: KernelDeps) {
    this.#deps = deps;
  }

  isFull(key: string, max: number): boolean {
    const limit = this.#limits.get(key);
    return limit !== undefined && limit.reserved >= max + this.#deps.host.queue_per_binding;
  }

  /** The names of the slots in use, which have to be renewed while their calls run. */
  heldSlots(): string[] {
    return [...this.#held_slots];
  }

  reserve(key: string, max: number): SlotReservation {
    let limit = this.#limits.get(key);
    if (limit === undefined) {
      const name = `slot/${key}`;
      limit = { name, max, reserved: 0, running: 0, queue: [], spare: [], serving: false, timer: null };
      this.#limits.set(key, limit);
    }
    limit.max = max;
    limit.reserved++;
    return this.#createReservation(key, limit);
  }

  #createReservation(key: string, limit: ConcurrencyLimit): SlotReservation {
    let slot: Slot | null = null;
    let released = false;
    return {
      acquire: async (deadline, onInterrupt) => {
        slot = await this.#wait(limit, deadline, onInterrupt);
        if (slot !== null) limit.running++;
        return slot !== null;
      },
      release: () => {
        if (released) return;
        released = true;
        limit.reserved--;
        if (slot !== null) {
          limit.running--;
          this.#passOn(limit, slot);
        }
        if (limit.reserved === 0) {
          limit.timer?.stop();
          this.#limits.delete(key);
        }
      },
    };
  }

  #wait(
    limit: ConcurrencyLimit,
    deadline: number,
    onInterrupt: (interrupt: () => void) => void,
  ): Promise<Slot | null> {
    return new Promise((resolve) => {
      const receiveSlot = (slot: Slot) => {
        timer.stop();
        resolve(slot);
      };
      const giveUp = () => {
        timer.stop();
        const index = limit.queue.indexOf(receiveSlot);
        if (index >= 0) limit.queue.splice(index, 1);
        resolve(null);
      };
      const timer = this.#deps.clock.after(Math.max(0, deadline - this.#deps.clock.monotonic()), giveUp);
      onInterrupt(giveUp);
      limit.queue.push(receiveSlot);
      void this.#serve(limit);
    });
  }

  /** Serves the queue until it is empty or no slot is free. Never runs twice at the same time for one limit. */
  async #serve(limit: ConcurrencyLimit): Promise<void> {
    if (limit.serving) return;
    limit.serving = true;
    limit.timer?.stop();
    limit.timer = null;
    try {
      while (limit.queue.length > 0) {
        // A slot may have become spare during the request to the store.
        const slot = limit.spare.pop() ?? (await this.#lease(limit)) ?? limit.spare.pop();
        if (slot === undefined) break;
        const next = limit.queue.shift();
        if (next === undefined) this.#release(limit, slot);
        else next(slot);
      }
    } finally {
      limit.serving = false;
    }
    for (const surplus of limit.spare.splice(0)) this.#release(limit, surplus);
    if (limit.queue.length > 0) limit.timer = this.#deps.clock.after(POLL_MS, () => void this.#serve(limit));
  }

  async #lease(limit: ConcurrencyLimit): Promise<Slot | undefined> {
    const { store, clock, node_id, log } = this.#deps;
    if (limit.running >= limit.max) return undefined;
    try {
      const lease = await store.leases.acquireSlot(limit.name, limit.max, node_id, clock.now(), SLOT_TTL_MS);
      if (lease === null) return undefined;
      this.#held_slots.add(lease.name);
      return { name: lease.name, since: clock.monotonic() };
    } catch (error) {
      log.warn({ err: error, slot: limit.name }, "could not lease a slot; retrying");
      return undefined;
    }
  }

  #passOn(limit: ConcurrencyLimit, slot: Slot): void {
    if (limit.queue.length > 0 && this.#deps.clock.monotonic() - slot.since < MAX_HOLD_MS) {
      limit.spare.push(slot);
      void this.#serve(limit);
      return;
    }
    this.#release(limit, slot);
  }

  #release(limit: ConcurrencyLimit, slot: Slot): void {
    this.#held_slots.delete(slot.name);
    this.#deps.store.leases.release(slot.name, this.#deps.node_id).then(
      () => this.#serveLater(limit),
      (error: unknown) => {
        this.#deps.log.warn({ err: error, slot: slot.name }, "could not release a slot; it will expire");
        this.#serveLater(limit);
      },
    );
  }

  /** Waits one poll interval, so that other nodes get a chance at the slot. */
  #serveLater(limit: ConcurrencyLimit): void {
    if (limit.queue.length === 0 || limit.serving || limit.timer !== null) return;
    limit.timer = this.#deps.clock.after(POLL_MS, () => void this.#serve(limit));
  }
}
