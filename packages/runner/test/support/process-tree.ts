/** Descendants of a process, as the host sees them. */
import { readFileSync } from "node:fs";
import { childrenOf } from "../../src/procfs/children-of.ts";

export function treeOf(pid: number): number[] {
  return childrenOf(pid).flatMap((child) => [child, ...treeOf(child)]);
}

/** All processes of the sandboxes that this process started and that run a plugin, including their outer processes. */
export function confinedProcesses(): number[] {
  return stages()
    .map((pid) => [pid, ...treeOf(pid)])
    .filter((tree) => tree.length > WITHOUT_PLUGIN)
    .flat();
}

/** The outer processes of prepared sandboxes, which wait for a plugin. */
export function waitingSandboxes(): number[] {
  return stages().filter((pid) => treeOf(pid).length < WITHOUT_PLUGIN);
}

/** The number of processes of a sandbox without a plugin: the outer process and PID 1. */
const WITHOUT_PLUGIN = 2;

function stages(): number[] {
  return childrenOf(process.pid).filter((pid) => {
    try {
      return readFileSync(`/proc/${pid}/cmdline`, "utf8").includes("\0stage\0");
    } catch {
      return false;
    }
  });
}
