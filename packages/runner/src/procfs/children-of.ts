/** Pids of the children that the main thread of a process has started; empty if /proc does not show them. */
import { readFileSync } from "node:fs";

export function childrenOf(pid: number): number[] {
  try {
    const text = readFileSync(`/proc/${pid}/task/${pid}/children`, "utf8");
    return text
      .split(" ")
      .map(Number)
      .filter((child) => child > 0);
  } catch {
    return [];
  }
}
