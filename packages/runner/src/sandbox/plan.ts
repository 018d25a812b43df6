/**
 * Turns a grant into everything that a sandboxed process gets. Invariant: the process sees system files or those
 * of its image, its own package, our host programs, its scratch, data and state folders, the folders that the operator
 * mounts, and nothing else of this machine. It can write only to its scratch, data and state folders and to mounts that
 * the grant makes writable.
 */
import { posix } from "node:path";
import { BackplaneError, type Grant } from "@backplane/contract";
import type { EgressListener } from "../egress/proxy/sandbox-network.ts";
import { type ResourceLimit, resourceLimits, type SandboxLimits } from "./limits.ts";

/** Paths inside the sandbox. */
export const INSIDE = {
  plugin: "/plugin",
  scratch: "/sandbox/scratch",
  node: "/sandbox/node",
  init: "/sandbox/init",
  state: "/sandbox/state",
  /** The host program for kernel plugins. */
  host: "/sandbox/host",
} as const;

/** The id of the plugin's user inside the sandbox. Outside, that user is the slot's or, without root, the gateway's. */
export const INSIDE_UID = 1000;

const NO_HOME = "/nonexistent";
const HOSTS = "/etc/hosts";
/**
 * Git refuses to read a repository of another user, and mounted folders belong to users of the host. The sandbox
 * contains only folders that the operator has granted, so all of them are accepted. Git before 2.46 does not accept a
 * prefix.
 */
const GIT_CONFIG = { GIT_CONFIG_COUNT: "1", GIT_CONFIG_KEY_0: "safe.directory", GIT_CONFIG_VALUE_0: "*" };

/** The parts of the host that are visible in every sandbox; read once at start. */
export interface SandboxHost {
  /** Read-only folders and files with the same path in the sandbox: /usr and the required parts of /etc. */
  system: readonly string[];
  /** Links of the host, e.g. /bin → usr/bin. */
  links: readonly { path: string; target: string }[];
  /** Our own files and their paths in the sandbox: /etc/passwd and similar. */
  files: readonly { source: string; target: string }[];
  node: string;
  path: readonly string[];
  limits: SandboxLimits;
  /** The first user id of the slots if the gateway is root; null for the gateway's own user. */
  first_uid: number | null;
  cgroup: boolean;
}

export interface SandboxProgram {
  /**
   * The gateway's own Node, a system program, a file of the package, or a program of an image. `file` is its path on
   * the host; for a program of an image it is the path in the image.
   */
  kind: "node" | "system" | "package" | "image";
  file: string;
  args: readonly string[];
}

/** A container image, whose files replace the system of the host. */
export interface SandboxImage {
  root: string;
  workdir: string;
  /** The top level of its root: folders and files with their path on the host, and links. */
  entries: readonly ({ path: string; source: string } | { path: string; target: string })[];
}

export interface SandboxRequest {
  grant: Grant;
  lifetime: "call" | "pooled";
  slot: number;
  /** The verified package folder, and whether it contains an `assets` folder. */
  folder: string;
  has_assets: boolean;
  program: SandboxProgram;
  env: Readonly<Record<string, string>>;
  image?: SandboxImage;
  /** Added by the dialect: a host program, the plugin's data folder. */
  binds?: readonly { source: string; target: string; writable: boolean }[];
  /** The mount point of the package: /plugin if absent, otherwise a folder below it. */
  folder_at?: string;
  links?: readonly { path: string; target: string }[];
  /** Folders that appear empty in the sandbox. */
  hidden?: readonly string[];
  /** A persistent folder on the host, which becomes the home of the process. `uid` owns it if the gateway is root. */
  state?: { source: string; uid: number | null };
  /** If absent, there is no egress, whatever the grant says. */
  network?: PlannedNetwork;
}

/** The network of a process. The grant is enforced by the gateway, at the other end of the listeners. */
interface PlannedNetwork {
  listeners: readonly EgressListener[];
  env: Readonly<Record<string, string>>;
  /** Replaces the default /etc/hosts; null if no names are added. */
  hosts_file: string | null;
}

export interface PlannedMount {
  source: string;
  target: string;
  writable: boolean;
  /** Part of the system, readable by every user of the host. */
  system: boolean;
}

export interface SandboxPlan {
  /** Null for the gateway's own user, which is then not root. */
  uid: number | null;
  mounts: PlannedMount[];
  links: { path: string; target: string }[];
  /** Empty read-only folders over paths that are not granted. */
  hidden: string[];
  /** A separate tmpfs that is removed with the process. */
  scratch: { target: string; bytes: number; files: number } | null;
  /** Persistent folders on the host; PID 1 enforces their limits. */
  kept: { target: string; bytes: number; files: number }[];
  /**
   * Opened in the network namespace of the sandbox. The gateway accepts their connections; there is no other way out.
   */
  listeners: readonly EgressListener[];
  env: Record<string, string>;
  cwd: string;
  command: string[];
  limits: ResourceLimit[];
}

export function plan(request: SandboxRequest, host: SandboxHost): SandboxPlan {
  const { folder_at = INSIDE.plugin, grant, image, state, network } = request;
  const scratch = grant.filesystem === "scratch";
  const read_only = { writable: false, system: false };
  return {
    uid: state?.uid ?? (host.first_uid === null ? null : host.first_uid + request.slot),
    mounts: [
      ...planSystem(image, host),
      ...host.files
        .filter(({ target }) => image === undefined || IMAGE_FILES.includes(target))
        .map((file) => ({ ...file, ...read_only, source: planHosts(network, file) ?? file.source })),
      ...(image === undefined ? [{ source: request.folder, target: folder_at, ...read_only }] : []),
      ...(request.program.kind === "node" ? [{ source: host.node, target: INSIDE.node, ...read_only }] : []),
      ...(request.binds ?? []).map((bind) => ({ ...bind, system: false })),
      ...(state === undefined
        ? []
        : [{ source: state.source, target: INSIDE.state, writable: true, system: false }]),
      ...grant.mounts.map(checkMount),
    ],
    links: [
      ...(image === undefined ? host.links : image.entries.filter((entry) => "target" in entry)),
      ...(scratch ? [{ path: "/tmp", target: INSIDE.scratch.slice(1) }] : []),
      ...(request.links ?? []),
    ],
    hidden: [
      ...(grant.filesystem === "none" && request.has_assets && image === undefined
        ? [`${folder_at}/assets`]
        : []),
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
    listeners: network?.listeners ?? [],
    env: planEnvironment(request, host),
    cwd: image?.workdir ?? folder_at,
    command: [programInside(request), ...request.program.args],
    limits: resourceLimits(host.limits, { lifetime: request.lifetime, cgroup: host.cgroup }),
  };
}

/** The complete environment (sandbox.env). A manifest cannot set HOME and TMPDIR, and PATH only with an image. */
function planEnvironment(
  { env, grant, image, state, network }: SandboxRequest,
  host: SandboxHost,
): Record<string, string> {
  const scratch = grant.filesystem === "scratch" ? INSIDE.scratch : NO_HOME;
  return {
    ...(grant.mounts.length > 0 && env.GIT_CONFIG_COUNT === undefined ? GIT_CONFIG : {}),
    ...env,
    ...network?.env,
    PATH: image === undefined ? host.path.join(":") : (env.PATH ?? host.path.join(":")),
    HOME: state === undefined ? scratch : INSIDE.state,
    TMPDIR: scratch,
    LANG: env.LANG ?? "C.UTF-8",
  };
}

/** Our own files that a process sees instead of those of its image. */
const IMAGE_FILES: readonly string[] = ["/etc/passwd", "/etc/group", HOSTS];

function planSystem(image: SandboxImage | undefined, host: SandboxHost): PlannedMount[] {
  if (image === undefined)
    return host.system.map((path) => ({ source: path, target: path, writable: false, system: true }));
  return image.entries.flatMap((entry) =>
    "source" in entry ? [{ source: entry.source, target: entry.path, writable: false, system: false }] : [],
  );
}

function planHosts(network: PlannedNetwork | undefined, { target }: { target: string }): string | null {
  return target === HOSTS ? (network?.hosts_file ?? null) : null;
}

function programInside({ program, folder }: SandboxRequest): string {
  if (program.kind === "node") return INSIDE.node;
  if (program.kind === "system" || program.kind === "image") return program.file;
  const inside = posix.relative(folder, program.file);
  if (inside === "" || inside.startsWith("..")) {
    throw new BackplaneError("launch_failed", "The entrypoint lies outside the package.");
  }
  return posix.join(INSIDE.plugin, inside);
}

/** Nothing may be mounted over, into or around the sandbox's own paths. */
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
/** Access to any of these means control of the machine. */
const NEVER_SHARED = ["/", "/dev", "/proc", "/sys"];

function checkMount({ source, target, writable }: Grant["mounts"][number]): PlannedMount {
  for (const path of [source, target]) {
    // posix.resolve normalizes the path, so any other spelling differs from it.
    if (!path.includes("\0") && posix.resolve("/", path) === path) continue;
    throw refusedMount(path, "it must be an absolute path without . or .. and without a trailing slash");
  }
  if (target === "/" || RESERVED.some((path) => target === path || target.startsWith(`${path}/`))) {
    throw refusedMount(target, "this path is reserved for the sandbox");
  }
  if (NEVER_SHARED.some((path) => source === path || (path !== "/" && source.startsWith(`${path}/`)))) {
    throw refusedMount(source, "this part of the machine is never shared");
  }
  return { source, target, writable, system: false };
}

export function refusedMount(path: string, reason: string): BackplaneError {
  return new BackplaneError("launch_failed", `The binding cannot mount ${JSON.stringify(path)}: ${reason}.`, {
    fix: "Correct the mounts of the binding: backplane binding set ID --mount FOLDER[:TARGET], or --no-mount.",
  });
}
