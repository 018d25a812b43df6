/** cgroup version 2: one tree, in which each cgroup delegates controllers to its children. */
import { mkdir } from "node:fs/promises";
import { dirname, join } from "node:path";
import { type CgroupLimits, type Cgroups, readCounter, type SlotCgroup } from "./cgroup.ts";
import { readOrDefault, readSyncOrDefault, removeFolder, writeControl } from "./cgroup-files.ts";

const REQUIRED = ["memory", "pids"] as const;
const OPTIONAL = ["cpu"] as const;
const CPU_PERIOD_US = 100_000;

/**
 * A cgroup with processes cannot delegate controllers, and the gateway's own cgroup contains at least the gateway.
 * Therefore the nearest ancestor that can delegate them becomes the parent of the new cgroup. Resolves to null if there
 * is none.
 */
export async function openCgroupsV2(
  mount: string,
  own_folder: string,
  name: string,
  makeFolder: (folder: string) => Promise<unknown> = (folder) => mkdir(folder, { mode: 0o755 }),
): Promise<Cgroups | null> {
  for (let parent = own_folder; parent.startsWith(mount); parent = dirname(parent)) {
    if (!(await delegateControllers(parent))) continue;
    const folder = join(parent, name);
    try {
      await makeFolder(folder);
    } catch {
      continue;
    }
    if (await delegateControllers(folder)) {
      const delegated_controllers = words(await readOrDefault(join(folder, "cgroup.subtree_control"), ""));
      return {
        version: "v2",
        controllers: [...OPTIONAL, ...REQUIRED].filter((controller) =>
          delegated_controllers.includes(controller),
        ),
        folders: [folder],
        make: async (slot, limits) => {
          await makeFolder(join(folder, slot));
          return await limitSlot(join(folder, slot), limits);
        },
        close: () => removeFolder(folder),
      };
    }
    await removeFolder(folder);
  }
  return null;
}

async function delegateControllers(folder: string): Promise<boolean> {
  const offered = words(await readOrDefault(join(folder, "cgroup.controllers"), ""));
  if (!REQUIRED.every((controller) => offered.includes(controller))) return false;
  const file = join(folder, "cgroup.subtree_control");
  for (const controller of [...REQUIRED, ...OPTIONAL]) {
    if (!offered.includes(controller) || words(await readOrDefault(file, "")).includes(controller)) continue;
    // The kernel refuses this for a cgroup with processes; the check below decides.
    await writeControl(file, `+${controller}`).catch(() => false);
  }
  const delegated = words(await readOrDefault(file, ""));
  return REQUIRED.every((controller) => delegated.includes(controller));
}

async function limitSlot(folder: string, limits: CgroupLimits): Promise<SlotCgroup> {
  await writeControl(join(folder, "memory.max"), String(limits.memory_bytes));
  await writeControl(join(folder, "memory.swap.max"), "0");
  // Kills the whole plugin when one of its processes runs out of memory.
  await writeControl(join(folder, "memory.oom.group"), "1");
  await writeControl(join(folder, "pids.max"), String(limits.max_pids));
  await writeControl(join(folder, "cpu.max"), `${Math.round(limits.cpus * CPU_PERIOD_US)} ${CPU_PERIOD_US}`);
  return {
    join_files: [join(folder, "cgroup.procs")],
    counters: () => ({
      oom: readCounter(readSyncOrDefault(join(folder, "memory.events"), ""), "oom_kill"),
      pids: readCounter(readSyncOrDefault(join(folder, "pids.events"), ""), "max"),
    }),
    remove: () => removeFolder(folder),
  };
}

const words = (text: string) => text.split(/\s+/).filter((word) => word !== "");
