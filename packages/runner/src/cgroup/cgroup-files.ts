/** Writing to and removing from a cgroup tree, where files are orders and an answer may be "busy". */
import { readFileSync } from "node:fs";
import { readFile, rmdir, writeFile } from "node:fs/promises";
import { setTimeout as wait } from "node:timers/promises";

const BUSY_TRIES = 50;
const BUSY_WAIT_MS = 20;

/** False: there is no such file in this kernel. */
export async function order(file: string, value: string): Promise<boolean> {
  try {
    await writeFile(file, value, { flag: "r+" });
    return true;
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === "ENOENT") return false;
    throw error;
  }
}

export async function readOr(file: string, otherwise: string): Promise<string> {
  return await readFile(file, "utf8").catch(() => otherwise);
}

export function readNowOr(file: string, otherwise: string): string {
  try {
    return readFileSync(file, "utf8");
  } catch {
    return otherwise;
  }
}

/** A cgroup whose last process just died is busy for a moment. */
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
