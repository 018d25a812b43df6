/**
 * max_concurrency per binding (bind.concurrency). A call first takes a place in the local line, which is
 * bounded, then one of the binding's slots, which are leases in the store, so two gateways count together and
 * a dead one's slots come back when they expire. First come, first served on each node.
 *
 * A slot goes straight to the next caller in line; held longer than a second it is given back first, so that
 * a busy node does not keep the others out.
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
  /** Callers in line or running. */
  places: number;
  running: number;
  line: ((slot: Slot) => void)[];
  spare: Slot[];
  seeking: boolean;
  timer: Timer | null;
}

export interface Place {
  /** Resolves with true once the slot is held; false when `deadline` (monotonic) came first. */
  acquire(deadline: number, onInterrupt: (interrupt: () => void) => void): Promise<boolean>;
  /** Gives back slot and place. Safe to call twice. */
  leave(): void;
}

export class ConcurrencyGates {
  readonly #deps: KernelDeps;
  readonly #gates = new Map<string, Gate>();
  readonly #held = new Set<string>();

  constructor(deps: KernelDeps) {
    this.#deps = deps;
  }

  full(gate_name: string, max: number): boolean {
    const gate = this.#gates.get(gate_name);
    return gate !== undefined && gate.places >= max + this.#deps.host.queue_per_binding;
  }

  /** The slots to renew while their calls run. */
  held(): string[] {
    return [...this.#held];
  }

  enter(binding_id: string, max: number): Place {
    let gate = this.#gates.get(binding_id);
    if (gate === undefined) {
      const name = `slot/${binding_id}`;
      gate = { name, max, places: 0, running: 0, line: [], spare: [], seeking: false, timer: null };
      this.#gates.set(binding_id, gate);
    }
    gate.max = max;
    gate.places++;
    return this.#place(binding_id, gate);
  }

  #place(binding_id: string, gate: Gate): Place {
    let slot: Slot | null = null;
    let left = false;
    return {
      acquire: async (deadline, onInterrupt) => {
        slot = await this.#wait(gate, deadline, onInterrupt);
        if (slot !== null) gate.running++;
        return slot !== null;
      },
      leave: () => {
        if (left) return;
        left = true;
        gate.places--;
        if (slot !== null) {
          gate.running--;
          this.#giveBack(gate, slot);
        }
        if (gate.places === 0) {
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
      const give_up = () => {
        timer.stop();
        const at = gate.line.indexOf(take);
        if (at >= 0) gate.line.splice(at, 1);
        resolve(null);
      };
      const timer = this.#deps.clock.after(Math.max(0, deadline - this.#deps.clock.monotonic()), give_up);
      onInterrupt(give_up);
      gate.line.push(take);
      void this.#seek(gate);
    });
  }

  /** Serves the line until it is empty or no slot is free. One seeker per gate at a time. */
  async #seek(gate: Gate): Promise<void> {
    if (gate.seeking) return;
    gate.seeking = true;
    gate.timer?.stop();
    gate.timer = null;
    try {
      while (gate.line.length > 0) {
        // One may have become spare while the store was asked.
        const slot = gate.spare.pop() ?? (await this.#lease(gate)) ?? gate.spare.pop();
        if (slot === undefined) break;
        const next = gate.line.shift();
        if (next === undefined) this.#release(gate, slot);
        else next(slot);
      }
    } finally {
      gate.seeking = false;
    }
    for (const surplus of gate.spare.splice(0)) this.#release(gate, surplus);
    if (gate.line.length > 0) gate.timer = this.#deps.clock.after(POLL_MS, () => void this.#seek(gate));
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
      log.warn({ err: error, slot: gate.name }, "no slot could be leased; trying again");
      return undefined;
    }
  }

  #giveBack(gate: Gate, slot: Slot): void {
    if (gate.line.length > 0 && this.#deps.clock.monotonic() - slot.since < HOLD_MS) {
      gate.spare.push(slot);
      void this.#seek(gate);
      return;
    }
    this.#release(gate, slot);
  }

  #release(gate: Gate, slot: Slot): void {
    this.#held.delete(slot.name);
    this.#deps.store.leases.release(slot.name, this.#deps.node_id).then(
      () => this.#later(gate),
      (error: unknown) => {
        this.#deps.log.warn({ err: error, slot: slot.name }, "a slot was not released; it expires by itself");
        this.#later(gate);
      },
    );
  }

  /** Leaves another node's poll time to come first. */
  #later(gate: Gate): void {
    if (gate.line.length === 0 || gate.seeking || gate.timer !== null) return;
    gate.timer = this.#deps.clock.after(POLL_MS, () => void this.#seek(gate));
  }
}
