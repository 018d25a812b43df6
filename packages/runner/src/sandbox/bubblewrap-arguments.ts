/**
 * Builds the command line of bwrap from a plan. bwrap is used only where the system lets it create user namespaces but
 * refuses them to the gateway's user; root never runs it (docs/decisions/0025-the-embedded-sandbox.md).
 */
import { INSIDE, INSIDE_UID, type SandboxPlan } from "./plan.ts";

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

/**
 * For sandbox-init only, until its listeners are open: low ports, the report of refused connections, and the
 * capability to drop all of them permanently.
 */
const INIT_CAPABILITIES = words(
  "--cap-add CAP_NET_BIND_SERVICE --cap-add CAP_NET_ADMIN --cap-add CAP_NET_RAW --cap-add CAP_SETPCAP",
);

export function bwrapCommand(plan: SandboxPlan, bwrap: string, init: string): string[] {
  return [
    bwrap,
    ...NAMESPACES,
    ...INIT_CAPABILITIES,
    ...PROC,
    ...DEV,
    ...plan.mounts.flatMap(({ source, target, writable }) => [
      writable ? "--bind" : "--ro-bind",
      source,
      target,
    ]),
    "--ro-bind",
    init,
    INSIDE.init,
    ...plan.links.flatMap(({ path, target }) => ["--symlink", target, path]),
    ...plan.hidden.flatMap((path) => ["--perms", "0555", "--tmpfs", path, "--remount-ro", path]),
    ...(plan.scratch === null ? [] : scratchTmpfs(plan.scratch)),
    ...words("--remount-ro /"),
    ...words(`-- ${INSIDE.init} init`),
  ];
}

/** bwrap can limit the size of a tmpfs, but not its number of files. */
function scratchTmpfs({ bytes, target }: NonNullable<SandboxPlan["scratch"]>): string[] {
  return ["--perms", "0700", "--size", String(bytes), "--tmpfs", target];
}
