/**
 * Resident memory of a process and of the descendants that main threads started, without mapped files; 0 where the
 * kernel does not report it.
 */
import { readFile } from "node:fs/promises";

/** Bounds the walk through a tree that grows at the same time. */
const MAX_PROCESSES = 256;

export async function readPrivateBytes(pid: number): Promise<number> {
  let sum = 0;
  const pids = [pid];
  for (let at = 0; at < pids.length && at < MAX_PROCESSES; at++) {
    const [status, children] = await Promise.all(
      ["status", `task/${pids[at]}/children`].map((file) => read(pids[at]!, file)),
    );
    for (const field of ["RssAnon", "RssShmem"]) {
      sum += Number(new RegExp(`^${field}:\\s*(\\d+) kB$`, "m").exec(status!)?.[1] ?? 0) * 1024;
    }
    pids.push(
      ...children!
        .split(" ")
        .map(Number)
        .filter((child) => child > 0),
    );
  }
  return sum;
}

function read(pid: number, file: string): Promise<string> {
  return readFile(`/proc/${pid}/${file}`, "utf8").catch(() => "");
}
