/**
 * One slot with its process ahead of the next call: entering a cgroup may take the kernel ten milliseconds, and
 * nobody should wait for that. Where the gateway is not root there are no cgroups and nothing to prepare.
 */
import { type Bubblewrap, type Spawned, spawnConfined } from "./bubblewrap.ts";
import { type Stage, stageLine } from "./bubblewrap-arguments.ts";
import type { Slot, SlotTable } from "./slot-table.ts";

export interface Prepared {
  slot: Slot;
  /** Null: there is no stage, and the process is yet to be started. */
  staged: { spawned: Spawned; stage: Stage } | null;
}

export class PreparedSlots {
  readonly #slots: SlotTable;
  readonly #tools: Bubblewrap;
  readonly #stageOf: (slot: Slot) => Stage | null;
  #next: Promise<Prepared | null> | null = null;
  #closed = false;

  constructor(slots: SlotTable, tools: Bubblewrap, stageOf: (slot: Slot) => Stage | null) {
    this.#slots = slots;
    this.#tools = tools;
    this.#stageOf = stageOf;
  }

  async take(): Promise<Prepared> {
    const waiting = this.#next;
    this.#next = null;
    const prepared = (await waiting) ?? (await this.#make());
    if (prepared.staged !== null && hasEnded(prepared.staged.spawned)) {
      await this.#slots.release(prepared.slot);
      return await this.#make();
    }
    prepared.staged?.spawned.hold(true);
    return prepared;
  }

  /** Once a call is on its way, for the next one. */
  refill(): void {
    if (this.#closed || this.#next !== null) return;
    this.#next = this.#make().then(
      (prepared) => {
        prepared.staged?.spawned.hold(false);
        return prepared;
      },
      () => null,
    );
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
    await this.#slots.release(slot);
  }

  async close(): Promise<void> {
    this.#closed = true;
    const waiting = await this.#next;
    this.#next = null;
    if (waiting !== null) await this.discard(waiting);
  }

  async #make(): Promise<Prepared> {
    const slot = await this.#slots.take();
    try {
      const stage = this.#stageOf(slot);
      const staged = stage && { spawned: spawnConfined(stageLine(stage), this.#tools), stage };
      return { slot, staged };
    } catch (error) {
      await this.#slots.release(slot);
      throw error;
    }
  }
}

function hasEnded({ child }: Spawned): boolean {
  return child.exitCode !== null || child.signalCode !== null;
}
