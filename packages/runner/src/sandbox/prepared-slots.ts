/**
 * Slots with their processes ahead of the next calls: forking the gateway and entering cgroups takes milliseconds, and
 * nobody should wait for that. One is kept, and as many more as were lately taken at once. Where the gateway is not
 * root there are no cgroups and nothing to prepare.
 */
import { type Bubblewrap, type Spawned, spawnConfined } from "./bubblewrap.ts";
import { type Stage, stageLine } from "./bubblewrap-arguments.ts";
import type { Slot, SlotTable } from "./slot-table.ts";

export interface Prepared {
  slot: Slot;
  /** Null: there is no stage, and the process is yet to be started. */
  staged: { spawned: Spawned; stage: Stage } | null;
}

const MOST = 4;

export class PreparedSlots {
  readonly #slots: SlotTable;
  readonly #tools: Bubblewrap;
  readonly #stageOf: (slot: Slot) => Stage | null;
  readonly #ready: Promise<Prepared | null>[] = [];
  #wanted = 1;
  #closed = false;

  constructor(slots: SlotTable, tools: Bubblewrap, stageOf: (slot: Slot) => Stage | null) {
    this.#slots = slots;
    this.#tools = tools;
    this.#stageOf = stageOf;
  }

  /** `uid`: a user of its own instead of the slot's. What waits has the slot's already, so it is of no use then. */
  async take(uid: number | null = null): Promise<Prepared> {
    if (uid !== null) return await this.#make(uid);
    const waiting = this.#ready.shift();
    if (waiting === undefined) this.#wanted = Math.min(this.#wanted + 1, MOST);
    const prepared = (await waiting) ?? (await this.#make());
    if (prepared.staged !== null && hasEnded(prepared.staged.spawned)) {
      this.#slots.release(prepared.slot);
      return await this.#make();
    }
    prepared.staged?.spawned.hold(true);
    return prepared;
  }

  /** Once a call is on its way, for the next one. */
  refill(): void {
    if (this.#closed) return;
    // A burst is followed by fewer, one by one.
    if (this.#ready.length >= this.#wanted) this.#wanted = Math.max(1, this.#wanted - 1);
    else this.#ready.push(this.#prepare());
  }

  async #prepare(): Promise<Prepared | null> {
    try {
      const prepared = await this.#make();
      prepared.staged?.spawned.hold(false);
      return prepared;
    } catch {
      // Whoever needs one sees why there is none.
      return null;
    }
  }

  async discard({ slot, staged }: Prepared): Promise<void> {
    if (staged !== null && !hasEnded(staged.spawned)) {
      const { child } = staged.spawned;
      staged.spawned.hold(true);
      const closed = new Promise((resolve) => child.once("close", resolve));
      staged.spawned.kill();
      for (const stream of [child.stdin, child.stdout, child.stderr]) stream.destroy();
      await closed;
    }
    this.#slots.release(slot);
  }

  async close(): Promise<void> {
    this.#closed = true;
    for (const waiting of this.#ready.splice(0)) {
      const prepared = await waiting;
      if (prepared !== null) await this.discard(prepared);
    }
  }

  async #make(uid: number | null = null): Promise<Prepared> {
    const slot = await this.#slots.take();
    try {
      const slots = this.#stageOf(slot);
      const stage = slots && (uid === null ? slots : { ...slots, uid });
      const staged = stage && { spawned: spawnConfined(stageLine(stage), this.#tools), stage };
      return { slot, staged };
    } catch (error) {
      this.#slots.release(slot);
      throw error;
    }
  }
}

function hasEnded({ child }: Spawned): boolean {
  return child.exitCode !== null || child.signalCode !== null;
}
