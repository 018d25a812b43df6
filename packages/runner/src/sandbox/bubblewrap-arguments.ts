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
  /** Files of cgroups that the process enters before anything else, by writing 0. */
  join: readonly string[];
}

const words = (line: string) => line.split(" ");

const PROC = words("--proc /proc --remount-ro /proc");
/** bwrap's own --dev nests a second user namespace and leaves /dev and /dev/shm writable. */
const DEV = [
  ...words("--perms 0755 --tmpfs /dev"),
  ...words("null zero full random urandom").flatMap((name) => words(`--dev-bind /dev/${name} /dev/${name}`)),
  ...words("--symlink /proc/self/fd /dev/fd --remount-ro /dev"),
];

const NAMESPACES = [
  ...words("--as-pid-1 --unshare-user --unshare-pid --unshare-net --unshare-ipc --unshare-uts"),
  ...words(`--unshare-cgroup-try --uid ${INSIDE_UID} --gid ${INSIDE_UID} --hostname sandbox`),
  ...words("--die-with-parent --new-session --cap-drop ALL"),
  ...words("--unsetenv NODE_CHANNEL_FD --unsetenv NODE_CHANNEL_SERIALIZATION_MODE"),
];

/** For sandbox-init alone, until its listeners are open: low ports, and the right to be rid of both for good. */
const LOW_PORTS = words("--cap-add CAP_NET_BIND_SERVICE --cap-add CAP_SETPCAP");
const LOWEST_FREE_PORT = 1024;

/** What an ordinary gateway starts, program first. */
export function directLine(plan: SandboxPlan, bwrap: string): string[] {
  const scratch = plan.scratch === null ? [] : ownTmpfs(plan.scratch);
  return [bwrap, ...bubblewrapArguments(plan, plan.mounts, scratch)];
}

/** What root starts, program first; it can wait there for its words. */
export function stageLine({ uid, folder, init, join }: Stage): string[] {
  return [init, "stage", String(uid), String(uid), folder, ...join];
}

export function stageWords(plan: SandboxPlan, bwrap: string, { uid, folder }: Stage): string[] {
  // What everybody may read needs no staging; the rest appears in the stage's folder under a number.
  const staged = plan.mounts.map((mount, index) =>
    mount.system ? mount : { ...mount, source: `${folder}/${index}` },
  );
  const scratch = plan.scratch === null ? [] : ["--bind", `${folder}/scratch`, plan.scratch.target];
  return [
    ...plan.mounts.flatMap(({ source, system }, index) => (system ? [] : ["bind", source, String(index)])),
    ...(plan.scratch === null ? [] : ["scratch", "scratch", tmpfsOptions(plan.scratch, uid)]),
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
    ...(plan.listeners.some(({ port }) => port < LOWEST_FREE_PORT) ? LOW_PORTS : []),
    ...PROC,
    ...DEV,
    ...mounts.flatMap(({ source, target, writable }) => [writable ? "--bind" : "--ro-bind", source, target]),
    ...plan.links.flatMap(({ path, target }) => ["--symlink", target, path]),
    ...plan.hidden.flatMap((path) => ["--perms", "0555", "--tmpfs", path, "--remount-ro", path]),
    ...scratch,
    ...words(`--remount-ro /`),
    "--chdir",
    plan.cwd,
    ...words(`-- ${INSIDE.init} init`),
  ];
}
