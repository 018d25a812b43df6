/**
 * Numbered places for sandboxed processes. A slot has a user and cgroups of its own; both outlive the process and
 * serve the next one. The next slot is made while nobody waits for it, so that a call rarely pays for one.
 */
import type { CgroupCounters, Cgroups, SlotCgroup } from "../cgroup/cgroup.ts";
import { OUR_PROCESSES, type SandboxLimits } from "./limits.ts";

export interface Slot {
  readonly index: number;
  readonly cgroup: SlotCgroup | null;
  /** What the cgroup had counted when the slot was taken. */
  before: CgroupCounters;
}

const NOTHING: CgroupCounters = { oom: 0, pids: 0 };

export class SlotTable {
  readonly #cgroups: Cgroups | null;
  readonly #limits: SandboxLimits;
  readonly #free: Slot[] = [];
  readonly #all: Slot[] = [];
  #next = 0;
  #spare: Promise<Slot> | null = null;

  constructor(cgroups: Cgroups | null, limits: SandboxLimits) {
    this.#cgroups = cgroups;
    this.#limits = limits;
  }

  async take(): Promise<Slot> {
    const slot = this.#free.pop() ?? (await this.#fresh());
    if (this.#free.length === 0) this.#prepare();
    return slot;
  }

  /** Only after the last process of the slot is gone. */
  release(slot: Slot): CgroupCounters | null {
    if (slot.cgroup === null) {
      this.#free.push(slot);
      return null;
    }
    const now = slot.cgroup.counters();
    const counted = { oom: now.oom - slot.before.oom, pids: now.pids - slot.before.pids };
    slot.before = now;
    this.#free.push(slot);
    return counted;
  }

  async close(): Promise<void> {
    await this.#spare?.catch(() => {});
    for (const { cgroup } of this.#all.splice(0)) await cgroup?.remove();
  }

  async #fresh(): Promise<Slot> {
    const ready = this.#spare ?? this.#make();
    this.#spare = null;
    return await ready;
  }

  #prepare(): void {
    this.#spare ??= this.#make();
    // Whoever takes it sees the failure.
    this.#spare.catch(() => {});
  }

  async #make(): Promise<Slot> {
    const index = this.#next++;
    const { cpus, memory_bytes, processes } = this.#limits;
    const limits = { cpus, memory_bytes, max_pids: processes + OUR_PROCESSES };
    const cgroup = (await this.#cgroups?.make(`slot-${index}`, limits)) ?? null;
    const slot: Slot = { index, cgroup, before: cgroup === null ? NOTHING : cgroup.counters() };
    this.#all.push(slot);
    return slot;
  }
}
