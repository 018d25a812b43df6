/**
 * What a slot's cgroup offers, whichever version the host has. It is made ahead of time and used by one process
 * tree after the other; counters only grow, so a reader compares with what it saw before.
 */
export interface CgroupLimits {
  memory_bytes: number;
  /** Processes and threads, including those of the sandbox itself. */
  max_pids: number;
  cpus: number;
}

export interface CgroupCounters {
  /** Processes killed because memory ran out. */
  oom: number;
  /** Forks that were refused. */
  pids: number;
}

export interface SlotCgroup {
  /** Files such as cgroup.procs; a process of one thread that writes 0 to each is inside with all its children. */
  join: readonly string[];
  /** Two short reads of the kernel's memory, at the end of each process: at once, not by the thread pool. */
  counters(): CgroupCounters;
  remove(): Promise<void>;
}

export interface Cgroups {
  version: "v1" | "v2";
  /** What is bounded, e.g. memory, pids, cpu. */
  controllers: readonly string[];
  /** Every folder that is ours, so that something can remove them after a sudden death. */
  folders: readonly string[];
  make(name: string, limits: CgroupLimits): Promise<SlotCgroup>;
  close(): Promise<void>;
}

/** "name value" lines, as cgroup files have them. */
export function readCounter(text: string, name: string): number {
  for (const line of text.split("\n")) {
    const [key, value] = line.split(" ");
    if (key === name) return Number(value);
  }
  return 0;
}
