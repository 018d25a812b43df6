/** Collects the output of a process while it runs, and its exit code. */
import type { ChildProcess } from "node:child_process";
import { once } from "node:events";

export function captureOutput(child: ChildProcess) {
  let out = "";
  let err = "";
  child.stdout!.on("data", (chunk: Buffer) => {
    out += chunk.toString();
  });
  child.stderr!.on("data", (chunk: Buffer) => {
    err += chunk.toString();
  });
  const closed = once(child, "close").then(([code]) => code as number);
  return { closed, out: () => out, err: () => err };
}
