/**
 * Builds command lines from a plan: for bwrap, and for `sandbox-init stage` if the gateway is root. Root never runs
 * bwrap: the stage builds the root file system, detaches the host's files and becomes the slot's user before it
 * executes bwrap (docs/decisions/0011-the-stage-builds-the-root.md). Pure.
 */
import { INSIDE, INSIDE_UID, type PlannedMount, type SandboxPlan } from "./plan.ts";

/** Used if the gateway is root. */
export interface Stage {
  uid: number;
  init: string;
  /** cgroup files that the process joins first, by writing 0 to each. */
  join: readonly string[];
}

const words = (line: string) => line.split(" ");

const PROC = words("--proc /proc --remount-ro /proc");
/** bwrap's --dev creates a second user namespace and leaves /dev and /dev/shm writable. */
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

/** For sandbox-init only, until its listeners are open: low ports, and the capability to drop both permanently. */
const LOW_PORTS = words("--cap-add CAP_NET_BIND_SERVICE --cap-add CAP_SETPCAP");
const LOWEST_FREE_PORT = 1024;

/** The command of a gateway that is not root: bwrap builds the root file system itself. */
export function bwrapCommand(plan: SandboxPlan, bwrap: string): string[] {
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
    ...initArguments(plan),
  ];
}

/** The command of a gateway that is root. The process waits for its arguments. */
export function stageCommand({ uid, init, join }: Stage): string[] {
  return [init, "stage", String(uid), String(uid), ...join];
}

export function stageArguments(plan: SandboxPlan, bwrap: string, { uid }: Stage): string[] {
  return [
    ...plan.mounts.flatMap((mount) => [mountCommand(mount), mount.source, mount.target]),
    ...plan.links.flatMap(({ path, target }) => ["link", target, path]),
    ...plan.hidden.flatMap((path) => ["hide", path]),
    ...(plan.scratch === null ? [] : ["scratch", plan.scratch.target, tmpfsOptions(plan.scratch, uid)]),
    "--",
    bwrap,
    ...namespaces(plan),
    // Includes devices; the stage ensures that only those of /dev exist and what is read-only.
    ...words("--dev-bind /root /"),
    ...PROC,
    ...initArguments(plan),
  ];
}

/** System folders include what the host mounts below them. */
function mountCommand({ system, writable }: PlannedMount): string {
  if (system) return "system";
  return writable ? "share" : "show";
}

function namespaces({ listeners }: SandboxPlan): string[] {
  return [...NAMESPACES, ...(listeners.some(({ port }) => port < LOWEST_FREE_PORT) ? LOW_PORTS : [])];
}

function initArguments({ cwd }: SandboxPlan): string[] {
  return ["--chdir", cwd, ...words(`-- ${INSIDE.init} init`)];
}

function tmpfsOptions({ bytes, files }: NonNullable<SandboxPlan["scratch"]>, uid: number): string {
  return `mode=0700,size=${bytes},nr_inodes=${files},uid=${uid},gid=${uid}`;
}

/** Only root can also limit the number of files. */
function ownTmpfs({ bytes, target }: NonNullable<SandboxPlan["scratch"]>): string[] {
  return ["--perms", "0700", "--size", String(bytes), "--tmpfs", target];
}
