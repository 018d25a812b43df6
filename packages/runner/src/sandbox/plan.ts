/**
 * From a grant to everything a sandboxed process is given: pure, so that it can be read and tested without one.
 * Invariant: the process sees the system's programs, its own package, its scratch and state, the folders that the
 * operator mounts, and nothing else of this machine; it writes to scratch, to its state and to mounts that the grant
 * calls writable.
 */
import { posix } from "node:path";
import { BackplaneError, type Grant } from "@backplane/contract";
import type { EgressListener } from "../egress/proxy/sandbox-network.ts";
import { type ResourceLimit, resourceLimits, type SandboxLimits } from "./limits.ts";

/** Where things are inside. */
export const INSIDE = {
  plugin: "/plugin",
  scratch: "/sandbox/scratch",
  node: "/sandbox/node",
  init: "/sandbox/init",
  state: "/sandbox/state",
  /** The program that hosts kernel plugins. */
  host: "/sandbox/host",
} as const;

/** Who a plugin is inside; outside it is the slot's user. */
export const INSIDE_UID = 1000;

const NO_HOME = "/nonexistent";
const HOSTS = "/etc/hosts";

/** What of the host every sandbox shows; read once at start. */
export interface SandboxHost {
  /** Read-only folders and files that appear under their own name: /usr, and the little of /etc that is needed. */
  system: readonly string[];
  /** Links as the host has them, e.g. /bin → usr/bin. */
  links: readonly { path: string; target: string }[];
  /** Our own files, by the path at which they appear: /etc/passwd and its like, sandbox-init. */
  files: readonly { source: string; target: string }[];
  node: string;
  path: readonly string[];
  limits: SandboxLimits;
  /** The first user of the slots when the gateway is root; null: the gateway's own user. */
  first_uid: number | null;
  cgroup: boolean;
}

export interface SandboxProgram {
  /** The gateway's own Node, a program of the system, or a file of the package; `file` is its path on the host. */
  kind: "node" | "system" | "package";
  file: string;
  args: readonly string[];
}

export interface SandboxRequest {
  grant: Grant;
  lifetime: "call" | "pooled";
  slot: number;
  /** The verified package folder, and whether it has a folder `assets`. */
  folder: string;
  has_assets: boolean;
  program: SandboxProgram;
  env: Readonly<Record<string, string>>;
  /** What the dialect adds: a host program of ours, the plugin's own data folder. */
  binds?: readonly { source: string; target: string; writable: boolean }[];
  /** Where the package appears, at or below /plugin, and with it what is beside it; absent: /plugin. */
  folder_at?: string;
  links?: readonly { path: string; target: string }[];
  /** Folders inside that appear empty. */
  hidden?: readonly string[];
  /** Its own folder on the host, kept from one process to the next: its home. `uid` owns it where the gateway is root. */
  state?: { source: string; uid: number | null };
  /** Absent: there is no way out at all, whatever the grant says. */
  way?: PlannedWay;
}

/** What a process needs to find its way out; the grant is enforced at its other end. */
interface PlannedWay {
  listeners: readonly EgressListener[];
  env: Readonly<Record<string, string>>;
  /** A file of ours instead of the usual /etc/hosts; null where no name is to be told. */
  hosts_file: string | null;
}

export interface PlannedMount {
  source: string;
  target: string;
  writable: boolean;
  /** Part of the system, open to every user of the host. */
  system: boolean;
}

export interface SandboxPlan {
  /** Null: as the gateway itself, which then is not root. */
  uid: number | null;
  mounts: PlannedMount[];
  links: { path: string; target: string }[];
  /** Empty and read-only, over something that is not granted. */
  hidden: string[];
  /** A tmpfs of its own: it dies with the process, however that ends. */
  scratch: { target: string; bytes: number; files: number } | null;
  /** Folders of the host that it keeps; PID 1 looks at what is in them. */
  kept: { target: string; bytes: number; files: number }[];
  /** What is opened inside, in its own network, and heard outside: the only place to connect to. */
  listeners: readonly EgressListener[];
  env: Record<string, string>;
  cwd: string;
  command: string[];
  limits: ResourceLimit[];
}

export function plan(request: SandboxRequest, host: SandboxHost): SandboxPlan {
  const { folder_at = INSIDE.plugin, grant, state, way } = request;
  const scratch = grant.filesystem === "scratch";
  const ours = { writable: false, system: false };
  return {
    uid: state?.uid ?? (host.first_uid === null ? null : host.first_uid + request.slot),
    mounts: [
      ...host.system.map((path) => ({ source: path, target: path, writable: false, system: true })),
      ...host.files.map((file) => ({ ...file, ...ours, source: hostsOf(way, file) ?? file.source })),
      { source: request.folder, target: folder_at, ...ours },
      ...(request.program.kind === "node" ? [{ source: host.node, target: INSIDE.node, ...ours }] : []),
      ...(request.binds ?? []).map((bind) => ({ ...bind, system: false })),
      ...(state === undefined
        ? []
        : [{ source: state.source, target: INSIDE.state, writable: true, system: false }]),
      ...grant.mounts.map(checkMount),
    ],
    links: [
      ...host.links,
      ...(scratch ? [{ path: "/tmp", target: INSIDE.scratch.slice(1) }] : []),
      ...(request.links ?? []),
    ],
    hidden: [
      ...(grant.filesystem === "none" && request.has_assets ? [`${folder_at}/assets`] : []),
      ...(request.hidden ?? []),
    ],
    scratch: scratch
      ? {
          target: INSIDE.scratch,
          bytes: host.limits.scratch_bytes,
          files: host.limits.scratch_files,
        }
      : null,
    kept: [
      ...(request.binds ?? []).filter(({ writable }) => writable).map(({ target }) => target),
      ...(state === undefined ? [] : [INSIDE.state]),
    ].map((target) => ({ target, bytes: host.limits.kept_bytes, files: host.limits.kept_files })),
    listeners: way?.listeners ?? [],
    env: environmentOf(request, host),
    cwd: folder_at,
    command: [programInside(request), ...request.program.args],
    limits: resourceLimits(host.limits, { lifetime: request.lifetime, cgroup: host.cgroup }),
  };
}

/** sandbox.env: exactly this. The manifest cannot change where programs and home are. */
function environmentOf(
  { env, grant, state, way }: SandboxRequest,
  host: SandboxHost,
): Record<string, string> {
  const scratch = grant.filesystem === "scratch" ? INSIDE.scratch : NO_HOME;
  return {
    ...env,
    ...way?.env,
    PATH: host.path.join(":"),
    HOME: state === undefined ? scratch : INSIDE.state,
    TMPDIR: scratch,
    LANG: env.LANG ?? "C.UTF-8",
  };
}

function hostsOf(way: PlannedWay | undefined, { target }: { target: string }): string | null {
  return target === HOSTS ? (way?.hosts_file ?? null) : null;
}

function programInside({ program, folder }: SandboxRequest): string {
  if (program.kind === "node") return INSIDE.node;
  if (program.kind === "system") return program.file;
  const inside = posix.relative(folder, program.file);
  if (inside === "" || inside.startsWith("..")) {
    throw new BackplaneError("launch_failed", "The entrypoint lies outside the package.");
  }
  return posix.join(INSIDE.plugin, inside);
}

/** Nothing may be put over, into or around what the sandbox itself is made of. */
const RESERVED = [
  "/bin",
  "/dev",
  "/etc",
  "/lib",
  "/lib32",
  "/lib64",
  "/libx32",
  "/plugin",
  "/proc",
  "/sandbox",
  "/sbin",
  "/sys",
  "/tmp",
  "/usr",
];
/** Whoever holds one of these holds the machine. */
const NEVER_SHARED = ["/", "/dev", "/proc", "/sys"];

function checkMount({ source, target, writable }: Grant["mounts"][number]): PlannedMount {
  for (const path of [source, target]) {
    // resolve drops a slash at the end, and knows no other spelling of a path.
    if (!path.includes("\0") && posix.resolve("/", path) === path) continue;
    throw refusedMount(path, "it must be an absolute path without . or .. and without a slash at its end");
  }
  if (target === "/" || RESERVED.some((path) => target === path || target.startsWith(`${path}/`))) {
    throw refusedMount(target, "the sandbox keeps that place for itself");
  }
  if (NEVER_SHARED.some((path) => source === path || (path !== "/" && source.startsWith(`${path}/`)))) {
    throw refusedMount(source, "that part of the machine is never shared");
  }
  return { source, target, writable, system: false };
}

export function refusedMount(path: string, why: string): BackplaneError {
  return new BackplaneError("launch_failed", `The binding mounts ${JSON.stringify(path)}: ${why}.`, {
    fix: "Correct the mounts of the binding: backplane binding set ID --mount FOLDER[:TARGET], or --no-mount.",
  });
}
