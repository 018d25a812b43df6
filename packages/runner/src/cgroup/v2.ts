/** cgroup version 2: one tree, controllers handed down by each parent to its children. */
import { mkdir } from "node:fs/promises";
import { dirname, join } from "node:path";
import { type CgroupLimits, type Cgroups, readCounter, type SlotCgroup } from "./cgroup.ts";
import { order, readNowOr, readOr, removeFolder } from "./cgroup-files.ts";

const NEEDED = ["memory", "pids"] as const;
const WANTED = ["cpu"] as const;
const CPU_PERIOD_US = 100_000;

/**
 * A cgroup with processes in it cannot hand controllers down, so the gateway's own mostly cannot: the nearest of
 * its parents that does, or lets itself be told to, becomes the parent of ours. Null: none does.
 */
export async function openCgroupsV2(
  mount: string,
  own: string,
  name: string,
  makeFolder: (folder: string) => Promise<unknown> = (folder) => mkdir(folder, { mode: 0o755 }),
): Promise<Cgroups | null> {
  for (let parent = own; parent.startsWith(mount); parent = dirname(parent)) {
    if (!(await handDown(parent))) continue;
    const folder = join(parent, name);
    try {
      await makeFolder(folder);
    } catch {
      continue;
    }
    if (await handDown(folder)) {
      const has = words(await readOr(join(folder, "cgroup.subtree_control"), ""));
      return {
        version: "v2",
        controllers: [...WANTED, ...NEEDED].filter((controller) => has.includes(controller)),
        folders: [folder],
        make: async (slot, limits) => {
          await makeFolder(join(folder, slot));
          return await boundSlot(join(folder, slot), limits);
        },
        close: () => removeFolder(folder),
      };
    }
    await removeFolder(folder);
  }
  return null;
}

async function handDown(folder: string): Promise<boolean> {
  const offered = words(await readOr(join(folder, "cgroup.controllers"), ""));
  if (!NEEDED.every((controller) => offered.includes(controller))) return false;
  const file = join(folder, "cgroup.subtree_control");
  for (const controller of [...NEEDED, ...WANTED]) {
    if (!offered.includes(controller) || words(await readOr(file, "")).includes(controller)) continue;
    // Refused where processes are inside; the check below decides.
    await order(file, `+${controller}`).catch(() => false);
  }
  const handed = words(await readOr(file, ""));
  return NEEDED.every((controller) => handed.includes(controller));
}

async function boundSlot(folder: string, limits: CgroupLimits): Promise<SlotCgroup> {
  await order(join(folder, "memory.max"), String(limits.memory_bytes));
  await order(join(folder, "memory.swap.max"), "0");
  // One member out of memory ends them all: half a plugin is none.
  await order(join(folder, "memory.oom.group"), "1");
  await order(join(folder, "pids.max"), String(limits.max_pids));
  await order(join(folder, "cpu.max"), `${Math.round(limits.cpus * CPU_PERIOD_US)} ${CPU_PERIOD_US}`);
  return {
    join: [join(folder, "cgroup.procs")],
    counters: () => ({
      oom: readCounter(readNowOr(join(folder, "memory.events"), ""), "oom_kill"),
      pids: readCounter(readNowOr(join(folder, "pids.events"), ""), "max"),
    }),
    remove: () => removeFolder(folder),
  };
}

const words = (text: string) => text.split(/\s+/).filter((word) => word !== "");
