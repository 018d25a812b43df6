/** cgroup version 1: one tree per controller. The gateway creates a folder in each tree that it uses. */
import { mkdir } from "node:fs/promises";
import { join } from "node:path";
import { type CgroupLimits, type Cgroups, readCounter, type SlotCgroup } from "./cgroup.ts";
import { readSyncOrDefault, removeFolder, writeControl } from "./cgroup-files.ts";

export type ControllerV1 = "memory" | "pids" | "cpu";

const CPU_PERIOD_US = 100_000;

/** `parents` is the gateway's own cgroup in each tree, so that limits of the gateway also apply to its plugins. */
export async function openCgroupsV1(
  parents: Readonly<Partial<Record<ControllerV1, string>>>,
  name: string,
): Promise<Cgroups> {
  const controllers = (Object.keys(parents) as ControllerV1[]).sort();
  // Two controllers can share a tree.
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
    await writeControl(join(folder, "memory.limit_in_bytes"), String(limits.memory_bytes));
    // Without this limit a plugin at its memory limit would swap instead of being killed. Not every kernel counts swap.
    await writeControl(join(folder, "memory.memsw.limit_in_bytes"), String(limits.memory_bytes)).catch(
      () => false,
    );
  }
  if (has("pids")) await writeControl(join(folderOf("pids"), "pids.max"), String(limits.max_pids));
  if (has("cpu")) {
    await writeControl(join(folderOf("cpu"), "cpu.cfs_period_us"), String(CPU_PERIOD_US));
    await writeControl(
      join(folderOf("cpu"), "cpu.cfs_quota_us"),
      String(Math.round(limits.cpus * CPU_PERIOD_US)),
    );
  }
  return {
    // A single-threaded process that adds itself does not take the lock that all forks on the machine wait for.
    join_files: folders.map((folder) => join(folder, "tasks")),
    counters: () => ({
      oom: has("memory")
        ? readCounter(readSyncOrDefault(join(folderOf("memory"), "memory.oom_control"), ""), "oom_kill")
        : 0,
      pids: has("pids")
        ? readCounter(readSyncOrDefault(join(folderOf("pids"), "pids.events"), ""), "max")
        : 0,
    }),
    remove: async () => {
      for (const folder of folders) await removeFolder(folder);
    },
  };
}
