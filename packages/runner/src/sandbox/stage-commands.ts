/**
 * Builds the command line of `sandbox-init stage`, and from a plan the commands that it gets on the control channel.
 * The command line contains no part of the plan, because the process is started before the plan is known.
 */
import { INSIDE_UID, type PlannedMount, type SandboxPlan } from "./plan.ts";

export interface Stage {
  /** The slot's user if the gateway is root, otherwise the gateway's own. */
  uid: number;
  gid: number;
  init: string;
  /** cgroup files that the process joins first, by writing 0 to each. */
  join_files: readonly string[];
}

export function stageCommandLine({ uid, gid, init, join_files }: Stage): string[] {
  return [init, "stage", String(uid), String(gid), ...join_files];
}

export function stageCommands(plan: SandboxPlan): string[] {
  return [
    ...plan.mounts.flatMap((mount) => [mountCommand(mount), mount.source, mount.target]),
    ...plan.links.flatMap(({ path, target }) => ["link", target, path]),
    ...plan.hidden.flatMap((path) => ["hide", path]),
    ...(plan.scratch === null ? [] : ["scratch", plan.scratch.target, tmpfsOptions(plan.scratch, plan.uid)]),
  ];
}

/** System folders include what the host mounts below them. */
function mountCommand({ system, writable }: PlannedMount): string {
  if (system) return "system";
  return writable ? "share" : "show";
}

/** Without root the tmpfs is mounted in a user namespace, where the gateway's user has the id of the plugin. */
function tmpfsOptions({ bytes, files }: NonNullable<SandboxPlan["scratch"]>, uid: number | null): string {
  const owner = uid ?? INSIDE_UID;
  return `mode=0700,size=${bytes},nr_inodes=${files},uid=${owner},gid=${owner}`;
}
