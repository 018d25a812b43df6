/**
 * Numbered slots for sandboxed processes. If the gateway is root, a slot has its own user and cgroups, which are reused
 * by the next process with the same limits. The next slot with the default limits is created ahead of time, so that a
 * call rarely waits for one.
 */
import type { CgroupCounters, Cgroups, SlotCgroup } from "../cgroup/cgroup.ts";
import { OUR_PROCESSES, type SandboxLimits } from "./limits.ts";

export interface Slot {
  readonly index: number;
  readonly cgroup: SlotCgroup | null;
  readonly limits: SandboxLimits;
  /** The cgroup's counters before the current process. */
  initial_counters: CgroupCounters;
}

const NO_COUNTS: CgroupCounters = { oom: 0, pids: 0 };

export class SlotTable {
  readonly #cgroups: Cgroups | null;
  readonly #default_limits: SandboxLimits;
  /** Free slots by their limits, because the kernel may refuse to lower the limits of a used cgroup. */
  readonly #free = new Map<SandboxLimits, Slot[]>();
  readonly #all: Slot[] = [];
  #next = 0;
  #prepared: Promise<Slot> | null = null;

  constructor(cgroups: Cgroups | null, default_limits: SandboxLimits) {
    this.#cgroups = cgroups;
    this.#default_limits = default_limits;
  }

  async take(limits: SandboxLimits): Promise<Slot> {
    const free = this.#freeSlots(limits);
    if (limits !== this.#default_limits) return free.pop() ?? (await this.#make(limits));
    const slot = free.pop() ?? (await this.#takePrepared());
    if (free.length === 0) this.#prepare();
    return slot;
  }

  /** Must only be called after the last process of the slot has exited. Returns its counters; null without cgroups. */
  release(slot: Slot): CgroupCounters | null {
    this.#freeSlots(slot.limits).push(slot);
    if (slot.cgroup === null) return null;
    const now = slot.cgroup.counters();
    const counted = { oom: now.oom - slot.initial_counters.oom, pids: now.pids - slot.initial_counters.pids };
    slot.initial_counters = now;
    return counted;
  }

  async close(): Promise<void> {
    await this.#prepared?.catch(() => {});
    for (const { cgroup } of this.#all.splice(0)) await cgroup?.remove();
  }

  #freeSlots(limits: SandboxLimits): Slot[] {
    const free = this.#free.get(limits) ?? [];
    this.#free.set(limits, free);
    return free;
  }

  async #takePrepared(): Promise<Slot> {
    const ready = this.#prepared ?? this.#make(this.#default_limits);
    this.#prepared = null;
    return await ready;
  }

  #prepare(): void {
    this.#prepared ??= this.#make(this.#default_limits);
    // The caller that takes it gets the error.
    this.#prepared.catch(() => {});
  }

  async #make(limits: SandboxLimits): Promise<Slot> {
    const index = this.#next++;
    const { cpus, memory_bytes, processes } = limits;
    const cgroup_limits = { cpus, memory_bytes, max_pids: processes + OUR_PROCESSES };
    const cgroup = (await this.#cgroups?.make(`slot-${index}`, cgroup_limits)) ?? null;
    const slot: Slot = {
      index,
      cgroup,
      limits,
      initial_counters: cgroup === null ? NO_COUNTS : cgroup.counters(),
    };
    this.#all.push(slot);
    return slot;
  }
}
