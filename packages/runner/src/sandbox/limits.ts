/**
 * Limits of one sandboxed process with its descendants. Operators can change them; plugins cannot. The kernel applies
 * `open_files` and `cpu_seconds` to each of these processes and, without cgroups, `memory_bytes` as well.
 */
export interface SandboxLimits {
  /** Memory, including scratch, which is a tmpfs. */
  memory_bytes: number;
  /** Processes and threads. */
  processes: number;
  /** CPU time per second; only enforced with cgroups. */
  cpus: number;
  /** CPU time of a one-call process. A pooled process is limited by `cpus` and the deadlines of its calls. */
  cpu_seconds: number;
  open_files: number;
  scratch_bytes: number;
  scratch_files: number;
  /** Size of a folder that a plugin keeps across processes. */
  kept_bytes: number;
  kept_files: number;
}

/** Limits of individual packages, by package id. The general limits apply to everything else. */
export type PackageLimits = Readonly<Record<string, Partial<SandboxLimits>>>;

const MIB = 1024 * 1024;

/** V8 reserves half a gigabyte of address space per JavaScript thread without using it, and RLIMIT_DATA counts it. */
const ADDRESS_SLACK = 1536 * 1024 * 1024;

export const DEFAULT_SANDBOX_LIMITS: SandboxLimits = {
  memory_bytes: 512 * MIB,
  // A browser with one page has more than 110 threads.
  processes: 512,
  cpus: 2,
  cpu_seconds: 600,
  open_files: 1024,
  scratch_bytes: 128 * MIB,
  scratch_files: 16_384,
  kept_bytes: 1024 * MIB,
  kept_files: 100_000,
};

/**
 * Linux resource numbers, the same on x64 and arm64. RLIMIT_AS is not used, because V8 reserves more than it uses.
 */
const RESOURCE = { cpu: 0, fsize: 1, data: 2, core: 4, nproc: 6, nofile: 7, memlock: 8 } as const;

/** The outer process and PID 1 are in a slot's process count but not in the plugin's limit. */
export const OUR_PROCESSES = 2;

export interface ResourceLimit {
  resource: number;
  value: number;
}

/** Limits that also work without cgroups. With a cgroup a second memory limit is not needed. */
export function resourceLimits(
  limits: SandboxLimits,
  options: { lifetime: "call" | "pooled"; cgroup: boolean },
): ResourceLimit[] {
  return [
    { resource: RESOURCE.core, value: 0 },
    { resource: RESOURCE.memlock, value: 64 * 1024 },
    // With a cgroup this limit must not apply first, because only the cgroup counts rejected forks.
    {
      resource: RESOURCE.nproc,
      value: limits.processes + (options.cgroup ? OUR_PROCESSES * 2 : OUR_PROCESSES),
    },
    { resource: RESOURCE.nofile, value: limits.open_files },
    { resource: RESOURCE.fsize, value: limits.scratch_bytes },
    ...(options.cgroup ? [] : [{ resource: RESOURCE.data, value: limits.memory_bytes + ADDRESS_SLACK }]),
    ...(options.lifetime === "call" ? [{ resource: RESOURCE.cpu, value: limits.cpu_seconds }] : []),
  ];
}
