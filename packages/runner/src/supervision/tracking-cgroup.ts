/**
 * A cgroup per plain process, for one purpose: nothing leaves a cgroup by forking, making a session or clearing its
 * environment, so its members are all descendants. Only where the gateway is root and has a tree to make them in. The
 * janitor removes them, and whoever is inside, after a gateway that was killed.
 */
import { closeSync, mkdirSync, openSync, readFileSync, write, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { promisify } from "node:util";
import { removeFolder } from "../cgroup/cgroup-files.ts";
import { type Janitor, startJanitor } from "../cgroup/janitor.ts";
import { type CgroupMount, cgroupMounts, ownCgroups, placeOf } from "../cgroup/open-cgroups.ts";
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
   * Resolves when the process is a member, or never will be. Children that it had before are not moved along. The kernel
   * waits for all processors before it moves a process, 6 to 30 ms, so that is left to a thread; it begins in this tick.
   */
  async add(name: string, pid: number, started: number): Promise<void> {
    try {
      mkdirSync(join(this.#folder, name), { mode: 0o755 });
    } catch {
      // It is there already.
    }
    try {
      const procs = openSync(join(this.#folder, name, "cgroup.procs"), "w");
      try {
        await writeTo(procs, String(pid));
      } finally {
        closeSync(procs);
      }
      // It may have ended meanwhile, and its number may be another's, which nobody may kill.
      const moved = readProcess(pid);
      if (moved !== null && moved.started !== started) {
        writeFileSync(join(dirname(this.#folder), "cgroup.procs"), String(pid));
      }
    } catch {
      // It has ended, or the tree takes none: its mark and its parents still tell.
    }
  }

  members(name: string): number[] {
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

/** Null: there is no cgroup tree that this process may use. */
export function openTrackingCgroups(name: string): TrackingCgroups | null {
  if (process.platform !== "linux" || process.getuid?.() !== 0) return null;
  try {
    const own = ownCgroups(readFileSync("/proc/self/cgroup", "utf8"));
    for (const mount of usable(cgroupMounts(readFileSync("/proc/self/mountinfo", "utf8")))) {
      const place = placeOf(mount, own.get(mount.version === 2 ? "" : "pids") ?? "/");
      if (place === null) continue;
      try {
        const folder = join(place, name);
        mkdirSync(folder, { mode: 0o755 });
        return new TrackingCgroups(folder);
      } catch {
        // Mounted read-only, as in many containers; another tree may not be.
      }
    }
  } catch {
    // No /proc: no cgroups.
  }
  return null;
}

function usable(mounts: readonly CgroupMount[]): CgroupMount[] {
  const v2 = mounts.filter(({ version }) => version === 2);
  return [
    ...v2,
    ...mounts.filter(({ version, controllers }) => version === 1 && controllers.includes("pids")),
  ];
}
