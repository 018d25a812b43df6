/** The processes below another, as the host sees them. */
import { readFileSync } from "node:fs";
import { childrenOf } from "../../src/procfs/children-of.ts";

export function treeOf(pid: number): number[] {
  return childrenOf(pid).flatMap((child) => [child, ...treeOf(child)]);
}

/** Everybody in a sandbox of this process, and the bwrap around them. */
export function confinedHere(): number[] {
  return childrenWith("--unshare-pid").flatMap((pid) => [pid, ...treeOf(pid)]);
}

/** Processes that are started and wait to be told what to do. */
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
