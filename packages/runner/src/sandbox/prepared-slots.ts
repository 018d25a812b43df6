/**
 * Slots with processes that were started ahead of the next launches, because forking the gateway, joining cgroups
 * and creating namespaces takes milliseconds (benchmark sandbox.cold). One is kept ready, and more after a burst. bwrap
 * needs the whole plan at its start, so only the slot is prepared for it.
 */
import type { SandboxLimits } from "./limits.ts";
import type { Slot, SlotTable } from "./slot-table.ts";
import { type SandboxTools, type SpawnedProcess, spawnConfined } from "./spawn-confined.ts";
import { type Stage, stageCommandLine } from "./stage-commands.ts";

export interface PreparedSlot {
  slot: Slot;
  /** Null with bwrap, whose process is started later. */
  staged: SpawnedProcess | null;
}

const MAX_PREPARED = 4;

export class PreparedSlots {
  readonly #slots: SlotTable;
  readonly #default_limits: SandboxLimits;
  readonly #tools: SandboxTools;
  readonly #stageOf: (slot: Slot) => Stage | null;
  readonly #ready: Promise<PreparedSlot | null>[] = [];
  #wanted = 1;
  #closed = false;

  constructor(
    slots: SlotTable,
    default_limits: SandboxLimits,
    tools: SandboxTools,
    stageOf: (slot: Slot) => Stage | null,
  ) {
    this.#slots = slots;
    this.#default_limits = default_limits;
    this.#tools = tools;
    this.#stageOf = stageOf;
  }

  /**
   * `uid` replaces the slot's user. A prepared process already has the slot's user and the default limits, so a new
   * one is started for any other user or limits.
   */
  async take(uid: number | null, limits: SandboxLimits): Promise<PreparedSlot> {
    if (uid !== null || limits !== this.#default_limits) return await this.#make(uid, limits);
    const waiting = this.#ready.shift();
    if (waiting === undefined) this.#wanted = Math.min(this.#wanted + 1, MAX_PREPARED);
    const prepared = (await waiting) ?? (await this.#make());
    if (prepared.staged !== null && hasExited(prepared.staged)) {
      this.#slots.release(prepared.slot);
      return await this.#make();
    }
    prepared.staged?.keepAlive(true);
    return prepared;
  }

  /** Called during each launch, to prepare the next one. */
  refill(): void {
    if (this.#closed) return;
    // The number shrinks by one at a time after a burst.
    if (this.#ready.length >= this.#wanted) this.#wanted = Math.max(1, this.#wanted - 1);
    else this.#ready.push(this.#prepare());
  }

  async #prepare(): Promise<PreparedSlot | null> {
    try {
      const prepared = await this.#make();
      prepared.staged?.keepAlive(false);
      return prepared;
    } catch {
      // The next launch reports the error.
      return null;
    }
  }

  async discard({ slot, staged }: PreparedSlot): Promise<void> {
    if (staged !== null && !hasExited(staged)) {
      const { child } = staged;
      staged.keepAlive(true);
      const closed = new Promise((resolve) => child.once("close", resolve));
      staged.kill();
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

  async #make(
    uid: number | null = null,
    limits: SandboxLimits = this.#default_limits,
  ): Promise<PreparedSlot> {
    const slot = await this.#slots.take(limits);
    try {
      const slot_stage = this.#stageOf(slot);
      const stage = slot_stage && (uid === null ? slot_stage : { ...slot_stage, uid, gid: uid });
      return { slot, staged: stage && spawnConfined(stageCommandLine(stage), this.#tools) };
    } catch (error) {
      this.#slots.release(slot);
      throw error;
    }
  }
}

function hasExited({ child }: SpawnedProcess): boolean {
  return child.exitCode !== null || child.signalCode !== null;
}
