/** Starts a writing process, kills it, and returns the writes that it acknowledged, one line each. */
import { spawn } from "node:child_process";
import { once } from "node:events";
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";
import { expect } from "vitest";

export async function runUntilKilled(program: string, ...args: string[]): Promise<string[]> {
  const path = fileURLToPath(new URL(`../fixtures/${program}.ts`, import.meta.url));
  const child = spawn(process.execPath, ["--conditions=backplane-source", path, ...args], {
    stdio: ["ignore", "pipe", "inherit"],
  });
  const acknowledged: string[] = [];
  const lines = createInterface({ input: child.stdout });
  const closed = once(lines, "close");
  lines.on("line", (line) => {
    if (acknowledged.push(line) === 2_000) child.kill("SIGKILL");
  });
  const [, signal] = (await once(child, "exit")) as [number | null, string | null];
  await closed;
  expect(signal).toBe("SIGKILL");
  return acknowledged;
}
