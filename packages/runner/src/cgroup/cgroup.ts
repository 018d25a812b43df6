export interface CgroupLimits {
  memory_bytes: number;
  /** Processes and threads, including those of the sandbox itself. */
  max_pids: number;
  cpus: number;
}

export interface CgroupCounters {
  /** Processes killed because memory ran out. */
  oom: number;
  /** Rejected forks. */
  pids: number;
}

/**
 * The cgroup of one slot, for both cgroup versions. It is created ahead of time and reused by one process tree
 * after another. Counters only grow, so readers compare them with an earlier value.
 */
export interface SlotCgroup {
  /**
   * Files such as cgroup.procs. A single-threaded process that writes 0 to each of them joins the cgroup, with all its
   * future children.
   */
  join_files: readonly string[];
  /** Synchronous, because its two short reads at the exit of each process would take longer in the thread pool. */
  counters(): CgroupCounters;
  remove(): Promise<void>;
}

export interface Cgroups {
  version: "v1" | "v2";
  /** The controllers in use, e.g. memory, pids, cpu. */
  controllers: readonly string[];
  /** The parents of all slots, one per tree. The janitor removes them if the gateway is killed. */
  folders: readonly string[];
  make(name: string, limits: CgroupLimits): Promise<SlotCgroup>;
  close(): Promise<void>;
}

/** Reads a value from the "name value" lines of a cgroup file. */
export function readCounter(text: string, name: string): number {
  for (const line of text.split("\n")) {
    const [key, value] = line.split(" ");
    if (key === name) return Number(value);
  }
  return 0;
}
