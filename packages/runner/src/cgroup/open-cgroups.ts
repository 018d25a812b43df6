/**
 * Finds the cgroup trees of this machine and the gateway's own cgroup in them. Both versions can be mounted side by
 * side.
 */
import { readFile } from "node:fs/promises";
import { join, relative } from "node:path";
import type { Cgroups } from "./cgroup.ts";
import { type ControllerV1, openCgroupsV1 } from "./v1.ts";
import { openCgroupsV2 } from "./v2.ts";

export interface CgroupMount {
  version: 1 | 2;
  /** The part of the tree that is visible at `mount`. */
  root: string;
  mount: string;
  controllers: readonly string[];
}

export type OpenedCgroups = { cgroups: Cgroups; summary: string } | { cgroups: null; summary: string };

/** `name` must be unique among the gateways on this machine. */
export async function openCgroups(name: string): Promise<OpenedCgroups> {
  if (process.getuid?.() !== 0) {
    return {
      cgroups: null,
      summary: "only root can create cgroups; resource limits per process apply instead",
    };
  }
  try {
    const mounts = parseCgroupMounts(await readFile("/proc/self/mountinfo", "utf8"));
    const own_cgroups = parseOwnCgroups(await readFile("/proc/self/cgroup", "utf8"));
    const v2 = mounts.find(({ version }) => version === 2);
    const folder_v2 = v2 === undefined ? null : cgroupFolder(v2, own_cgroups.get("") ?? "/");
    if (v2 !== undefined && folder_v2 !== null) {
      const cgroups = await openCgroupsV2(v2.mount, folder_v2, name);
      if (cgroups !== null) return { cgroups, summary: describe(cgroups) };
    }
    const parents: Partial<Record<ControllerV1, string>> = {};
    for (const controller of ["memory", "pids", "cpu"] as const) {
      const mount = mounts.find(
        ({ version, controllers }) => version === 1 && controllers.includes(controller),
      );
      const folder = mount === undefined ? null : cgroupFolder(mount, own_cgroups.get(controller) ?? "/");
      if (folder !== null) parents[controller] = folder;
    }
    if (parents.memory === undefined || parents.pids === undefined) {
      return {
        cgroups: null,
        summary: "this machine does not delegate both the memory and the pids controller",
      };
    }
    const cgroups = await openCgroupsV1(parents, name);
    return { cgroups, summary: describe(cgroups) };
  } catch (error) {
    return { cgroups: null, summary: `cgroups cannot be created here: ${(error as Error).message}` };
  }
}

export function parseCgroupMounts(mountinfo: string): CgroupMount[] {
  const mounts: CgroupMount[] = [];
  for (const line of mountinfo.split("\n")) {
    const [mount_fields = "", type_fields = ""] = line.split(" - ");
    const [, , , root = "", mount = ""] = mount_fields.split(" ");
    const [type, , options = ""] = type_fields.split(" ");
    if (type === "cgroup2") mounts.push({ version: 2, root, mount, controllers: [] });
    if (type === "cgroup") mounts.push({ version: 1, root, mount, controllers: options.split(",") });
  }
  return mounts;
}

/** Maps each controller to the cgroup path of this process. The key of version 2 is the empty string. */
export function parseOwnCgroups(text: string): Map<string, string> {
  const own_cgroups = new Map<string, string>();
  for (const line of text.split("\n")) {
    const [, controllers, ...path] = line.split(":");
    if (controllers === undefined) continue;
    for (const controller of controllers.split(",")) own_cgroups.set(controller, path.join(":"));
  }
  return own_cgroups;
}

/** Null when the gateway's own cgroup is not in the mounted part. */
export function cgroupFolder({ root, mount }: CgroupMount, path: string): string | null {
  const inside = relative(root, path);
  return inside.startsWith("..") ? null : join(mount, inside);
}

function describe({ version, controllers }: Cgroups): string {
  return `cgroup ${version}: ${controllers.join(", ")}`;
}
