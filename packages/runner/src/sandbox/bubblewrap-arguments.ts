/**
 * From a plan to command lines: bwrap's own, and before it that of `sandbox-init stage` where the gateway is root.
 * Root never runs bwrap: the stage builds the whole root, leaves the host's files, becomes the slot's user, and only
 * then is bwrap executed (docs/decisions/0011-the-stage-builds-the-root.md). Pure.
 */
import { INSIDE, INSIDE_UID, type PlannedMount, type SandboxPlan } from "./plan.ts";

/** Present where the gateway is root. */
export interface Stage {
  uid: number;
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

/** What an ordinary gateway starts, program first: bwrap puts the root together itself. */
export function directLine(plan: SandboxPlan, bwrap: string): string[] {
  return [
    bwrap,
    ...namespaces(plan),
    ...PROC,
    ...DEV,
    ...plan.mounts.flatMap(({ source, target, writable }) => [
      writable ? "--bind" : "--ro-bind",
      source,
      target,
    ]),
    ...plan.links.flatMap(({ path, target }) => ["--symlink", target, path]),
    ...plan.hidden.flatMap((path) => ["--perms", "0555", "--tmpfs", path, "--remount-ro", path]),
    ...(plan.scratch === null ? [] : ownTmpfs(plan.scratch)),
    ...words("--remount-ro /"),
    ...begin(plan),
  ];
}

/** What root starts, program first; it can wait there for its words. */
export function stageLine({ uid, init, join }: Stage): string[] {
  return [init, "stage", String(uid), String(uid), ...join];
}

export function stageWords(plan: SandboxPlan, bwrap: string, { uid }: Stage): string[] {
  return [
    ...plan.mounts.flatMap((mount) => [wordFor(mount), mount.source, mount.target]),
    ...plan.links.flatMap(({ path, target }) => ["link", target, path]),
    ...plan.hidden.flatMap((path) => ["hide", path]),
    ...(plan.scratch === null ? [] : ["scratch", plan.scratch.target, tmpfsOptions(plan.scratch, uid)]),
    "--",
    bwrap,
    ...namespaces(plan),
    // Devices too; that there are only those of /dev, and what is read-only, is the stage's work.
    ...words("--dev-bind /root /"),
    ...PROC,
    ...begin(plan),
  ];
}

/** Parts of the system come with whatever the host mounts below them. */
function wordFor({ system, writable }: PlannedMount): string {
  if (system) return "system";
  return writable ? "share" : "show";
}

function namespaces({ listeners }: SandboxPlan): string[] {
  return [...NAMESPACES, ...(listeners.some(({ port }) => port < LOWEST_FREE_PORT) ? LOW_PORTS : [])];
}

function begin({ cwd }: SandboxPlan): string[] {
  return ["--chdir", cwd, ...words(`-- ${INSIDE.init} init`)];
}

function tmpfsOptions({ bytes, files }: NonNullable<SandboxPlan["scratch"]>, uid: number): string {
  return `mode=0700,size=${bytes},nr_inodes=${files},uid=${uid},gid=${uid}`;
}

/** Only root can bound the number of files too. */
function ownTmpfs({ bytes, target }: NonNullable<SandboxPlan["scratch"]>): string[] {
  return ["--perms", "0700", "--size", String(bytes), "--tmpfs", target];
}
