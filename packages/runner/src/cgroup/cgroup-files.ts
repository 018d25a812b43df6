/**
 * Reads and writes cgroup files, and removes cgroup folders. A write or a removal is a command to the Linux
 * kernel and can fail with EBUSY.
 */
import { readFileSync } from "node:fs";
import { readFile, rmdir, writeFile } from "node:fs/promises";
import { setTimeout as wait } from "node:timers/promises";

const BUSY_TRIES = 50;
const BUSY_WAIT_MS = 20;

/** False when this kernel has no such file. */
export async function writeControl(file: string, value: string): Promise<boolean> {
  try {
    await writeFile(file, value, { flag: "r+" });
    return true;
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === "ENOENT") return false;
    throw error;
  }
}

export async function readOrDefault(file: string, fallback: string): Promise<string> {
  return await readFile(file, "utf8").catch(() => fallback);
}

export function readSyncOrDefault(file: string, fallback: string): string {
  try {
    return readFileSync(file, "utf8");
  } catch {
    return fallback;
  }
}

/** The kernel reports EBUSY for a moment after the last process of a cgroup has exited. */
export async function removeFolder(folder: string): Promise<void> {
  for (let tries = 1; ; tries++) {
    try {
      await rmdir(folder);
      return;
    } catch (error) {
      const { code } = error as NodeJS.ErrnoException;
      if (code === "ENOENT") return;
      if (code !== "EBUSY" || tries === BUSY_TRIES) throw error;
      await wait(BUSY_WAIT_MS);
    }
  }
}
