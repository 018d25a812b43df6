/** What a process and its children take of memory for themselves alone, as the kernel counts it; 0 where it does not. */
import { readFile } from "node:fs/promises";

/** A tree that grows while it is walked must not be walked for ever. */
const MOST = 256;

export async function privateBytes(pid: number): Promise<number> {
  let sum = 0;
  const found = [pid];
  for (let at = 0; at < found.length && at < MOST; at++) {
    const [status, children] = await Promise.all(
      ["status", `task/${found[at]}/children`].map((file) => read(found[at]!, file)),
    );
    for (const field of ["RssAnon", "RssShmem"]) {
      sum += Number(new RegExp(`^${field}:\\s*(\\d+) kB$`, "m").exec(status!)?.[1] ?? 0) * 1024;
    }
    found.push(
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
