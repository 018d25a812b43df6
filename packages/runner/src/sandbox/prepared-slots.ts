/**
 * Slots with processes that were started ahead of the next launches, because forking the gateway and joining
 * cgroups takes milliseconds (bench sandbox.cold). One is kept ready, and more after a burst. A gateway that is not root has no cgroups
 * and prepares nothing.
 */
import { type Bubblewrap, type Spawned, spawnConfined } from "./bubblewrap.ts";
import { type Stage, stageCommand } from "./bubblewrap-arguments.ts";
import type { Slot, SlotTable } from "./slot-table.ts";

export interface PreparedSlot {
  slot: Slot;
  /** Null if there is no stage; the process is started later then. */
  staged: { spawned: Spawned; stage: Stage } | null;
}

const MAX_PREPARED = 4;

export class PreparedSlots {
  readonly #slots: SlotTable;
  readonly #tools: Bubblewrap;
  readonly #stageOf: (slot: Slot) => Stage | null;
  readonly #ready: Promise<PreparedSlot | null>[] = [];
  #wanted = 1;
  #closed = false;

  constructor(slots: SlotTable, tools: Bubblewrap, stageOf: (slot: Slot) => Stage | null) {
    this.#slots = slots;
    this.#tools = tools;
    this.#stageOf = stageOf;
  }

  /** `uid` replaces the slot's user. A prepared process already has the slot's user, so a new one is started. */
  async take(uid: number | null = null): Promise<PreparedSlot> {
    if (uid !== null) return await this.#make(uid);
    const waiting = this.#ready.shift();
    if (waiting === undefined) this.#wanted = Math.min(this.#wanted + 1, MAX_PREPARED);
    const prepared = (await waiting) ?? (await this.#make());
    if (prepared.staged !== null && hasEnded(prepared.staged.spawned)) {
      this.#slots.release(prepared.slot);
      return await this.#make();
    }
    prepared.staged?.spawned.keepAlive(true);
    return prepared;
  }

  /** Called when a launch is under way, to prepare the next. */
  refill(): void {
    if (this.#closed) return;
    // The number shrinks by one at a time after a burst.
    if (this.#ready.length >= this.#wanted) this.#wanted = Math.max(1, this.#wanted - 1);
    else this.#ready.push(this.#prepare());
  }

  async #prepare(): Promise<PreparedSlot | null> {
    try {
      const prepared = await this.#make();
      prepared.staged?.spawned.keepAlive(false);
      return prepared;
    } catch {
      // The next launch reports the error.
      return null;
    }
  }

  async discard({ slot, staged }: PreparedSlot): Promise<void> {
    if (staged !== null && !hasEnded(staged.spawned)) {
      const { child } = staged.spawned;
      staged.spawned.keepAlive(true);
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

  async #make(uid: number | null = null): Promise<PreparedSlot> {
    const slot = await this.#slots.take();
    try {
      const slots = this.#stageOf(slot);
      const stage = slots && (uid === null ? slots : { ...slots, uid });
      const staged = stage && { spawned: spawnConfined(stageCommand(stage), this.#tools), stage };
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
