/**
 * Enforces max_concurrency per binding (bind.concurrency). A call first joins the local queue, which is bounded, and
 * then gets one of the binding's slots. Slots are leases in the store: gateways share one count, and the slots of a dead
 * gateway become free when they expire. Each node serves its queue in order.
 *
 * A released slot passes directly to the next call in the queue. A slot that was held for more than a second is released
 * to the store first, so that a busy node does not starve the others.
 */
import type { KernelDeps, Timer } from "@backplane/ports";

export const SLOT_TTL_MS = 30_000;
const POLL_MS = 100;
const HOLD_MS = 1_000;

interface Slot {
  name: string;
  since: number;
}

interface Gate {
  name: string;
  max: number;
  /** Calls that are queued or running. */
  reserved: number;
  running: number;
  queue: ((slot: Slot) => void)[];
  spare: Slot[];
  serving: boolean;
  timer: Timer | null;
}

/** The position of one call in the queue of its binding, and later its slot. */
export interface SlotReservation {
  /** Resolves with true once the slot is held, or with false when `deadline` (monotonic) comes first. */
  acquire(deadline: number, onInterrupt: (interrupt: () => void) => void): Promise<boolean>;
  /** Leaves the queue and releases the slot. Safe to call twice. */
  release(): void;
}

export class ConcurrencyGates {
  readonly #deps: KernelDeps;
  readonly #gates = new Map<string, Gate>();
  readonly #held = new Set<string>();

  constructor(deps: KernelDeps) {
    this.#deps = deps;
  }

  isFull(gate_name: string, max: number): boolean {
    const gate = this.#gates.get(gate_name);
    return gate !== undefined && gate.reserved >= max + this.#deps.host.queue_per_binding;
  }

  /** The names of the slots in use, which have to be renewed while their calls run. */
  held(): string[] {
    return [...this.#held];
  }

  reserve(binding_id: string, max: number): SlotReservation {
    let gate = this.#gates.get(binding_id);
    if (gate === undefined) {
      const name = `slot/${binding_id}`;
      gate = { name, max, reserved: 0, running: 0, queue: [], spare: [], serving: false, timer: null };
      this.#gates.set(binding_id, gate);
    }
    gate.max = max;
    gate.reserved++;
    return this.#createReservation(binding_id, gate);
  }

  #createReservation(binding_id: string, gate: Gate): SlotReservation {
    let slot: Slot | null = null;
    let released = false;
    return {
      acquire: async (deadline, onInterrupt) => {
        slot = await this.#wait(gate, deadline, onInterrupt);
        if (slot !== null) gate.running++;
        return slot !== null;
      },
      release: () => {
        if (released) return;
        released = true;
        gate.reserved--;
        if (slot !== null) {
          gate.running--;
          this.#passOn(gate, slot);
        }
        if (gate.reserved === 0) {
          gate.timer?.stop();
          this.#gates.delete(binding_id);
        }
      },
    };
  }

  #wait(gate: Gate, deadline: number, onInterrupt: (interrupt: () => void) => void): Promise<Slot | null> {
    return new Promise((resolve) => {
      const take = (slot: Slot) => {
        timer.stop();
        resolve(slot);
      };
      const giveUp = () => {
        timer.stop();
        const at = gate.queue.indexOf(take);
        if (at >= 0) gate.queue.splice(at, 1);
        resolve(null);
      };
      const timer = this.#deps.clock.after(Math.max(0, deadline - this.#deps.clock.monotonic()), giveUp);
      onInterrupt(giveUp);
      gate.queue.push(take);
      void this.#serve(gate);
    });
  }

  /** Serves the queue until it is empty or no slot is free. Runs once per gate at a time. */
  async #serve(gate: Gate): Promise<void> {
    if (gate.serving) return;
    gate.serving = true;
    gate.timer?.stop();
    gate.timer = null;
    try {
      while (gate.queue.length > 0) {
        // A slot may have become spare during the request to the store.
        const slot = gate.spare.pop() ?? (await this.#lease(gate)) ?? gate.spare.pop();
        if (slot === undefined) break;
        const next = gate.queue.shift();
        if (next === undefined) this.#release(gate, slot);
        else next(slot);
      }
    } finally {
      gate.serving = false;
    }
    for (const surplus of gate.spare.splice(0)) this.#release(gate, surplus);
    if (gate.queue.length > 0) gate.timer = this.#deps.clock.after(POLL_MS, () => void this.#serve(gate));
  }

  async #lease(gate: Gate): Promise<Slot | undefined> {
    const { store, clock, node_id, log } = this.#deps;
    if (gate.running >= gate.max) return undefined;
    try {
      const lease = await store.leases.acquireSlot(gate.name, gate.max, node_id, clock.now(), SLOT_TTL_MS);
      if (lease === null) return undefined;
      this.#held.add(lease.name);
      return { name: lease.name, since: clock.monotonic() };
    } catch (error) {
      log.warn({ err: error, slot: gate.name }, "could not lease a slot; retrying");
      return undefined;
    }
  }

  #passOn(gate: Gate, slot: Slot): void {
    if (gate.queue.length > 0 && this.#deps.clock.monotonic() - slot.since < HOLD_MS) {
      gate.spare.push(slot);
      void this.#serve(gate);
      return;
    }
    this.#release(gate, slot);
  }

  #release(gate: Gate, slot: Slot): void {
    this.#held.delete(slot.name);
    this.#deps.store.leases.release(slot.name, this.#deps.node_id).then(
      () => this.#serveLater(gate),
      (error: unknown) => {
        this.#deps.log.warn({ err: error, slot: slot.name }, "could not release a slot; it will expire");
        this.#serveLater(gate);
      },
    );
  }

  /** Waits one poll interval, so that other nodes get a chance at the slot. */
  #serveLater(gate: Gate): void {
    if (gate.queue.length === 0 || gate.serving || gate.timer !== null) return;
    gate.timer = this.#deps.clock.after(POLL_MS, () => void this.#serve(gate));
  }
}
