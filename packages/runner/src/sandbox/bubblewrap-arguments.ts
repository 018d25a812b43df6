/**
 * From a plan to command lines: bwrap's own, and before it that of `sandbox-init stage` where the gateway is root.
 * Root never runs bwrap: it stages what is closed to others, becomes the slot's user, and only then is bwrap
 * executed. Pure.
 */
import { INSIDE, INSIDE_UID, type PlannedMount, type SandboxPlan } from "./plan.ts";

/** Present where the gateway is root. */
export interface Stage {
  uid: number;
  /** An existing folder that is covered in a mount namespace of the process's own. */
  folder: string;
  init: string;
  /** cgroup.procs files that the process enters before anything else. */
  join: readonly string[];
}

const DEVICES = ["null", "zero", "full", "random", "urandom"] as const;

const NAMESPACES = [
  "--as-pid-1",
  "--unshare-user",
  "--unshare-pid",
  "--unshare-net",
  "--unshare-ipc",
  "--unshare-uts",
  "--unshare-cgroup-try",
  "--uid",
  String(INSIDE_UID),
  "--gid",
  String(INSIDE_UID),
  "--hostname",
  "sandbox",
  "--die-with-parent",
  "--new-session",
  "--cap-drop",
  "ALL",
  "--unsetenv",
  "NODE_CHANNEL_FD",
  "--unsetenv",
  "NODE_CHANNEL_SERIALIZATION_MODE",
] as const;

/** The whole command line, program first. */
export function commandLine(plan: SandboxPlan, bwrap: string, stage: Stage | null): string[] {
  if (stage === null) {
    const scratch = plan.scratch === null ? [] : ownTmpfs(plan.scratch);
    return [bwrap, ...bubblewrapArguments(plan, plan.mounts, scratch)];
  }
  // What everybody may read needs no staging; the rest appears in the stage's folder under a number.
  const staged = plan.mounts.map((mount, index) =>
    mount.system ? mount : { ...mount, source: `${stage.folder}/${index}` },
  );
  const scratch = plan.scratch === null ? [] : ["--bind", `${stage.folder}/scratch`, plan.scratch.target];
  return [
    stage.init,
    "stage",
    String(stage.uid),
    String(stage.uid),
    stage.folder,
    ...stage.join.flatMap((file) => ["cgroup", file]),
    ...plan.mounts.flatMap(({ source, system }, index) => (system ? [] : ["bind", source, String(index)])),
    ...(plan.scratch === null ? [] : ["scratch", "scratch", tmpfsOptions(plan.scratch, stage.uid)]),
    "--",
    bwrap,
    ...bubblewrapArguments(plan, staged, scratch),
  ];
}

function tmpfsOptions({ bytes, files }: NonNullable<SandboxPlan["scratch"]>, uid: number): string {
  return `mode=0700,size=${bytes},nr_inodes=${files},uid=${uid},gid=${uid}`;
}

/** Only root can bound the number of files too. */
function ownTmpfs({ bytes, target }: NonNullable<SandboxPlan["scratch"]>): string[] {
  return ["--perms", "0700", "--size", String(bytes), "--tmpfs", target];
}

function bubblewrapArguments(
  plan: SandboxPlan,
  mounts: readonly PlannedMount[],
  scratch: readonly string[],
): string[] {
  return [
    ...NAMESPACES,
    ...["--proc", "/proc", "--remount-ro", "/proc"],
    // bwrap's own --dev nests a second user namespace and leaves /dev and /dev/shm writable.
    ...["--perms", "0755", "--tmpfs", "/dev"],
    ...DEVICES.flatMap((name) => ["--dev-bind", `/dev/${name}`, `/dev/${name}`]),
    ...["--symlink", "/proc/self/fd", "/dev/fd", "--remount-ro", "/dev"],
    ...mounts.flatMap(({ source, target, writable }) => [writable ? "--bind" : "--ro-bind", source, target]),
    ...plan.links.flatMap(({ path, target }) => ["--symlink", target, path]),
    ...plan.hidden.flatMap((path) => ["--perms", "0555", "--tmpfs", path, "--remount-ro", path]),
    ...scratch,
    ...["--remount-ro", "/", "--chdir", plan.cwd, "--", INSIDE.init, "init"],
  ];
}
