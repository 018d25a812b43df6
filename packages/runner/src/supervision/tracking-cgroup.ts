/**
 * A cgroup per plain process, used only to find its descendants: no process leaves a cgroup by forking, creating a
 * session or clearing its environment. Only available to root with a writable cgroup tree. The janitor removes the
 * cgroups of a gateway that was killed.
 */
import { closeSync, mkdirSync, openSync, readFileSync, write, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { promisify } from "node:util";
import { removeFolder } from "../cgroup/cgroup-files.ts";
import { type Janitor, startJanitor } from "../cgroup/janitor.ts";
import {
  type CgroupMount,
  cgroupFolder,
  parseCgroupMounts,
  parseOwnCgroups,
} from "../cgroup/open-cgroups.ts";
import { readProcess } from "../procfs/process-table.ts";

const writeTo = promisify(write);

export class TrackingCgroups {
  readonly #folder: string;
  readonly #janitor: Janitor;

  constructor(folder: string) {
    this.#folder = folder;
    this.#janitor = startJanitor([folder]);
  }

  /**
   * Resolves when the process is a member or has exited. Existing children are not moved. The kernel waits for all
   * processors before it moves a process, which takes 6 to 30 ms, so a thread does it; the write starts in this tick.
   */
  async add(name: string, pid: number, start_ticks: number): Promise<void> {
    try {
      mkdirSync(join(this.#folder, name), { mode: 0o755 });
    } catch {
      // The folder exists, or opening its file fails below as well.
    }
    try {
      const procs = openSync(join(this.#folder, name, "cgroup.procs"), "w");
      try {
        await writeTo(procs, String(pid));
      } finally {
        closeSync(procs);
      }
      // If the process exited in the meantime, the pid may belong to another process, which must not be killed.
      const moved = readProcess(pid);
      if (moved !== null && moved.start_ticks !== start_ticks) {
        writeFileSync(join(dirname(this.#folder), "cgroup.procs"), String(pid));
      }
    } catch {
      // The process has exited, or the tree is not writable. The other signs still find descendants.
    }
  }

  listMembers(name: string): number[] {
    try {
      const text = readFileSync(join(this.#folder, name, "cgroup.procs"), "utf8");
      return text
        .split("\n")
        .map(Number)
        .filter((pid) => pid > 1);
    } catch {
      return [];
    }
  }

  async remove(name: string): Promise<void> {
    await removeFolder(join(this.#folder, name)).catch(() => {});
  }

  async close(): Promise<void> {
    await this.#janitor.close();
  }
}

/** Null if this process cannot use any cgroup tree. */
export function openTrackingCgroups(name: string): TrackingCgroups | null {
  if (process.platform !== "linux" || process.getuid?.() !== 0) return null;
  try {
    const own_cgroups = parseOwnCgroups(readFileSync("/proc/self/cgroup", "utf8"));
    for (const mount of usableMounts(parseCgroupMounts(readFileSync("/proc/self/mountinfo", "utf8")))) {
      const parent = cgroupFolder(mount, own_cgroups.get(mount.version === 2 ? "" : "pids") ?? "/");
      if (parent === null) continue;
      try {
        const folder = join(parent, name);
        mkdirSync(folder, { mode: 0o755 });
        return new TrackingCgroups(folder);
      } catch {
        // Read-only, as in many containers; another tree may be writable.
      }
    }
  } catch {
    // Without /proc there are no cgroups.
  }
  return null;
}

function usableMounts(mounts: readonly CgroupMount[]): CgroupMount[] {
  const v2 = mounts.filter(({ version }) => version === 2);
  return [
    ...v2,
    ...mounts.filter(({ version, controllers }) => version === 1 && controllers.includes("pids")),
  ];
}
