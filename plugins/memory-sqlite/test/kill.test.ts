import { spawn } from "node:child_process";
import { once } from "node:events";
import { rmSync } from "node:fs";
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";
import { createMemoryFolder } from "@backplane/test-kit/memory-folder";
import { expect } from "vitest";
import { scriptedContext } from "../../../test/support/kernel-plugins/scripted-context.ts";
import { verifies } from "../../../test/support/verifies.ts";
import { createMemoryPlugin } from "../src/plugin.ts";
import { queryEvent } from "./memory-events.ts";

const PROGRAM = fileURLToPath(new URL("./write-until-killed.ts", import.meta.url));

/**
 * Kills the process as soon as it has reported this many stored entries; entries that it reports meanwhile
 * are included.
 */
async function writeAndKill(dir: string, from: number, count: number): Promise<number[]> {
  const child = spawn(process.execPath, ["--conditions=backplane-source", PROGRAM, dir, String(from)], {
    stdio: ["ignore", "pipe", "pipe"],
  });
  const exited = once(child, "exit");
  let stderr = "";
  child.stderr.on("data", (chunk: Buffer) => {
    stderr += chunk.toString();
  });
  const received: number[] = [];
  for await (const line of createInterface({ input: child.stdout })) {
    received.push(Number(line));
    if (received.length === count) child.kill("SIGKILL");
  }
  expect((await exited)[1], stderr).toBe("SIGKILL");
  return received;
}

verifies(
  "memory.store",
  "finds every acknowledged entry after kill -9",
  async () => {
    const dir = createMemoryFolder("memory-");
    const acknowledged: number[] = [];
    for (let round = 0; round < 3; round += 1)
      acknowledged.push(...(await writeAndKill(dir, round * 100_000, 100)));
    expect(acknowledged.length).toBeGreaterThanOrEqual(300);

    const plugin = createMemoryPlugin();
    const ctx = scriptedContext({ stateDir: dir });
    await plugin.onLoad!(ctx);
    for (const number of acknowledged) {
      await plugin.onEvent!(queryEvent(`number${number}`, 50, { id: String(number) }), ctx);
    }
    const missing = ctx.emitted.filter(({ payload }) => {
      const text = `entry number${String(payload.request_id)} of the ledger`;
      return !(payload.hits as { text: string }[]).some((hit) => hit.text === text);
    });
    expect(missing).toEqual([]);
    expect(ctx.emitted).toHaveLength(acknowledged.length);
    await plugin.onUnload!(ctx);
    rmSync(dir, { recursive: true });
  },
  60_000,
);
