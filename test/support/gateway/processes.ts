/** Finds processes of this machine by text in their command line or environment (Linux only), and polls conditions. */
import { readdirSync, readFileSync } from "node:fs";

export function isAlive(pid: number): boolean {
  try {
    // A zombie has ended; only its parent has not noticed yet.
    return !/^State:\s+Z/m.test(readFileSync(`/proc/${pid}/status`, "utf8"));
  } catch {
    return false;
  }
}

/** Running processes with this text in their command line or environment. */
export function processesWith(text: string): number[] {
  const pids: number[] = [];
  for (const entry of readdirSync("/proc")) {
    const pid = Number(entry);
    if (!/^\d+$/.test(entry) || pid === process.pid) continue;
    try {
      const process_text =
        readFileSync(`/proc/${entry}/cmdline`, "utf8") + readFileSync(`/proc/${entry}/environ`, "utf8");
      if (process_text.includes(text) && isAlive(pid)) pids.push(pid);
    } catch {
      // The process exited in the meantime.
    }
  }
  return pids;
}

/** Polls until `condition` is true and returns how many ms that took; fails after `limit_ms`. */
export async function eventually(
  condition: () => boolean | Promise<boolean>,
  limit_ms: number,
  label: string,
): Promise<number> {
  const from = performance.now();
  while (!(await condition())) {
    if (performance.now() - from > limit_ms)
      throw new Error(`This did not happen within ${limit_ms} ms: ${label}`);
    await new Promise((resolve) => setTimeout(resolve, 25));
  }
  return performance.now() - from;
}
