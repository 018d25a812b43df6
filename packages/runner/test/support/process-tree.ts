/** Descendants of a process, as the host sees them. */
import { readFileSync } from "node:fs";
import { childrenOf } from "../../src/procfs/children-of.ts";

export function descendantsOf(pid: number): number[] {
  return childrenOf(pid).flatMap((child) => [child, ...descendantsOf(child)]);
}

/** All processes of the sandboxes that this process started and that run a plugin, including their outer processes. */
export function confinedProcesses(): number[] {
  return listStages()
    .map((pid) => [pid, ...descendantsOf(pid)])
    .filter((tree) => tree.length > PROCESSES_WITHOUT_PLUGIN)
    .flat();
}

/** The outer processes of prepared sandboxes, which wait for a plugin. */
export function waitingSandboxes(): number[] {
  return listStages().filter((pid) => descendantsOf(pid).length < PROCESSES_WITHOUT_PLUGIN);
}

/** The number of processes of a sandbox without a plugin: the outer process and PID 1. */
const PROCESSES_WITHOUT_PLUGIN = 2;

function listStages(): number[] {
  return childrenOf(process.pid).filter((pid) => {
    try {
      return readFileSync(`/proc/${pid}/cmdline`, "utf8").includes("\0stage\0");
    } catch {
      return false;
    }
  });
}
