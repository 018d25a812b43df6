/** cgroup version 1: one tree per controller, a folder in each. */
import { mkdir } from "node:fs/promises";
import { join } from "node:path";
import { type CgroupLimits, type Cgroups, readCounter, type SlotCgroup } from "./cgroup.ts";
import { order, readNowOr, removeFolder } from "./cgroup-files.ts";

export type ControllerV1 = "memory" | "pids" | "cpu";

const CPU_PERIOD_US = 100_000;

/** `parents`: the gateway's own cgroup in each tree, so that what bounds the gateway bounds its plugins too. */
export async function openCgroupsV1(
  parents: Readonly<Partial<Record<ControllerV1, string>>>,
  name: string,
): Promise<Cgroups> {
  const controllers = (Object.keys(parents) as ControllerV1[]).sort();
  // Two controllers may share one tree.
  const folders = [...new Set(controllers.map((controller) => join(parents[controller]!, name)))];
  for (const folder of folders) await mkdir(folder, { mode: 0o755 });
  return {
    version: "v1",
    controllers,
    folders,
    make: (slot, limits) =>
      makeSlot(controllers, (controller) => join(parents[controller]!, name, slot), limits),
    close: async () => {
      for (const folder of folders) await removeFolder(folder);
    },
  };
}

async function makeSlot(
  controllers: readonly ControllerV1[],
  folderOf: (controller: ControllerV1) => string,
  limits: CgroupLimits,
): Promise<SlotCgroup> {
  const folders = [...new Set(controllers.map(folderOf))];
  for (const folder of folders) await mkdir(folder, { mode: 0o755 });
  const has = (controller: ControllerV1) => controllers.includes(controller);
  if (has("memory")) {
    const folder = folderOf("memory");
    await order(join(folder, "memory.limit_in_bytes"), String(limits.memory_bytes));
    // Swap would only put the end off; not every kernel counts it.
    await order(join(folder, "memory.memsw.limit_in_bytes"), String(limits.memory_bytes)).catch(() => false);
  }
  if (has("pids")) await order(join(folderOf("pids"), "pids.max"), String(limits.max_pids));
  if (has("cpu")) {
    await order(join(folderOf("cpu"), "cpu.cfs_period_us"), String(CPU_PERIOD_US));
    await order(join(folderOf("cpu"), "cpu.cfs_quota_us"), String(Math.round(limits.cpus * CPU_PERIOD_US)));
  }
  return {
    // By itself and as its one thread a process enters without the lock that all forks of the machine wait for.
    join: folders.map((folder) => join(folder, "tasks")),
    counters: () => ({
      oom: has("memory")
        ? readCounter(readNowOr(join(folderOf("memory"), "memory.oom_control"), ""), "oom_kill")
        : 0,
      pids: has("pids") ? readCounter(readNowOr(join(folderOf("pids"), "pids.events"), ""), "max") : 0,
    }),
    remove: async () => {
      for (const folder of folders) await removeFolder(folder);
    },
  };
}
