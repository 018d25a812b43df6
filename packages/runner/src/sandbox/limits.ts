/** What one sandboxed process and its children may use up together. Operators change them; plugins cannot. */
export interface SandboxLimits {
  /** Memory, scratch included where scratch is a tmpfs. */
  memory_bytes: number;
  /** Processes and threads. */
  processes: number;
  /** CPUs' worth of time per second; held by a cgroup only. */
  cpus: number;
  /** CPU time of a one-call process; a pooled one is bounded by `cpus` and its calls' deadlines. */
  cpu_seconds: number;
  open_files: number;
  scratch_bytes: number;
  scratch_files: number;
  /** All of a folder that a plugin keeps from one process to the next. */
  kept_bytes: number;
  kept_files: number;
}

const MIB = 1024 * 1024;

/** V8 reserves, and does not use, half a gigabyte for each thread of JavaScript; the limit counts it all the same. */
const ADDRESS_SLACK = 1536 * 1024 * 1024;

export const DEFAULT_SANDBOX_LIMITS: SandboxLimits = {
  memory_bytes: 512 * MIB,
  processes: 128,
  cpus: 2,
  cpu_seconds: 600,
  open_files: 1024,
  scratch_bytes: 128 * MIB,
  scratch_files: 16_384,
  kept_bytes: 1024 * MIB,
  kept_files: 100_000,
};

/** Linux resource numbers, the same on x64 and arm64. Never AS: V8 reserves more than it uses. */
const RESOURCE = { cpu: 0, fsize: 1, data: 2, core: 4, nproc: 6, nofile: 7, memlock: 8 } as const;

/** bwrap and sandbox-init count among a slot's processes, but not against the plugin. */
export const OUR_PROCESSES = 2;

export interface ResourceLimit {
  resource: number;
  value: number;
}

/** The floor that holds without cgroups too. A second bound on memory is no use beside a cgroup's. */
export function resourceLimits(
  limits: SandboxLimits,
  how: { lifetime: "call" | "pooled"; cgroup: boolean },
): ResourceLimit[] {
  return [
    { resource: RESOURCE.core, value: 0 },
    { resource: RESOURCE.memlock, value: 64 * 1024 },
    // Beside a cgroup it must not strike first: only the cgroup tells that it did.
    { resource: RESOURCE.nproc, value: limits.processes + (how.cgroup ? OUR_PROCESSES * 2 : OUR_PROCESSES) },
    { resource: RESOURCE.nofile, value: limits.open_files },
    { resource: RESOURCE.fsize, value: limits.scratch_bytes },
    ...(how.cgroup ? [] : [{ resource: RESOURCE.data, value: limits.memory_bytes + ADDRESS_SLACK }]),
    ...(how.lifetime === "call" ? [{ resource: RESOURCE.cpu, value: limits.cpu_seconds }] : []),
  ];
}
