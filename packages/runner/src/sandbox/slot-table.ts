/**
 * Numbered slots for sandboxed processes. A slot has its own user and cgroups, which are reused by the next
 * process. The next slot is created ahead of time, so that a call rarely waits for one.
 */
import type { CgroupCounters, Cgroups, SlotCgroup } from "../cgroup/cgroup.ts";
import { OUR_PROCESSES, type SandboxLimits } from "./limits.ts";

export interface Slot {
  readonly index: number;
  readonly cgroup: SlotCgroup | null;
  /** The cgroup's counters when the slot was taken. */
  before: CgroupCounters;
}

const NO_COUNTS: CgroupCounters = { oom: 0, pids: 0 };

export class SlotTable {
  readonly #cgroups: Cgroups | null;
  readonly #limits: SandboxLimits;
  readonly #free: Slot[] = [];
  readonly #all: Slot[] = [];
  #next = 0;
  #prepared: Promise<Slot> | null = null;

  constructor(cgroups: Cgroups | null, limits: SandboxLimits) {
    this.#cgroups = cgroups;
    this.#limits = limits;
  }

  async take(): Promise<Slot> {
    const slot = this.#free.pop() ?? (await this.#fresh());
    if (this.#free.length === 0) this.#prepare();
    return slot;
  }

  /** Must only be called after the last process of the slot has exited. */
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
    await this.#prepared?.catch(() => {});
    for (const { cgroup } of this.#all.splice(0)) await cgroup?.remove();
  }

  async #fresh(): Promise<Slot> {
    const ready = this.#prepared ?? this.#make();
    this.#prepared = null;
    return await ready;
  }

  #prepare(): void {
    this.#prepared ??= this.#make();
    // The caller that takes it gets the error.
    this.#prepared.catch(() => {});
  }

  async #make(): Promise<Slot> {
    const index = this.#next++;
    const { cpus, memory_bytes, processes } = this.#limits;
    const limits = { cpus, memory_bytes, max_pids: processes + OUR_PROCESSES };
    const cgroup = (await this.#cgroups?.make(`slot-${index}`, limits)) ?? null;
    const slot: Slot = { index, cgroup, before: cgroup === null ? NO_COUNTS : cgroup.counters() };
    this.#all.push(slot);
    return slot;
  }
}
