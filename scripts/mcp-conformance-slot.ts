/**
 * Waits for a free slot, then starts a client of the conformance suite. The suite starts all clients concurrently, and
 * on a busy machine dozens of them starve each other until a scenario's own time limit expires. Arguments:
 * SLOTS_FOLDER COUNT PROGRAM ARGS…
 */
import { spawnSync } from "node:child_process";
import { mkdirSync, rmdirSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";

const RETRY_MS = 200;

async function acquireSlot(folder: string, count: number): Promise<string> {
  for (;;) {
    for (let n = 0; n < count; n++) {
      const slot = join(folder, `slot-${n}`);
      try {
        mkdirSync(slot);
        return slot;
      } catch (error) {
        if ((error as NodeJS.ErrnoException).code !== "EEXIST") throw error;
      }
    }
    await delay(RETRY_MS);
  }
}

const [folder, count, program, ...args] = process.argv.slice(2);
const slot = await acquireSlot(folder!, Number(count));
try {
  process.exitCode = spawnSync(program!, args, { stdio: "inherit" }).status ?? 1;
} finally {
  rmdirSync(slot);
}
