/** Descendants of a process, as the host sees them. */
import { readFileSync } from "node:fs";
import { childrenOf } from "../../src/procfs/children-of.ts";

export function treeOf(pid: number): number[] {
  return childrenOf(pid).flatMap((child) => [child, ...treeOf(child)]);
}

/** All processes in sandboxes of this process, including bwrap. */
export function confinedHere(): number[] {
  return childrenWith("--unshare-pid").flatMap((pid) => [pid, ...treeOf(pid)]);
}

/** Prepared processes that wait for their arguments. */
export function waitingHere(): number[] {
  return childrenWith("\0stage\0");
}

function childrenWith(word: string): number[] {
  return childrenOf(process.pid).filter((pid) => {
    try {
      return readFileSync(`/proc/${pid}/cmdline`, "utf8").includes(word);
    } catch {
      return false;
    }
  });
}
