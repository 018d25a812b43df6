/** The processes that another one has started, as the kernel tells it. None of one that is gone. */
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
