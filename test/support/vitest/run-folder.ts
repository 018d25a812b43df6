/**
 * Gives a test run its own folders and removes them at the end: a temporary folder, a compile cache inside it, and a
 * folder in memory if there is enough memory. Stores go to memory, because the suites write thousands of them and every
 * commit to a disk waits. With the cache, a program that runs from its sources starts twice as fast. Sandboxed plugins
 * never see a folder below /dev, so their files stay in the temporary folder.
 */
import { chmodSync, existsSync, mkdirSync, mkdtempSync, rmSync, statfsSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout } from "node:timers/promises";

const MEMORY = "/dev/shm";
/** The file system type that statfs reports for tmpfs. */
const TMPFS = 0x01021994;
const NEEDED_BYTES = 4 * 2 ** 30;
const REMOVE_TRIES = 100;

export default function createRunFolder(): () => Promise<void> {
  const temporary = mkdtempSync(join(tmpdir(), "bp-"));
  const folders = [temporary];
  process.env.TMPDIR = temporary;
  // Plugins run as other users and must not write code that this user executes.
  process.env.NODE_COMPILE_CACHE = join(temporary, "compiled");
  mkdirSync(process.env.NODE_COMPILE_CACHE, { mode: 0o700 });
  if (isLargeTmpfs(MEMORY)) {
    const memory = mkdtempSync(join(MEMORY, "bp-"));
    folders.push(memory);
    process.env.BACKPLANE_TEST_MEMORY = memory;
  }
  // Plugins and PostgreSQL run as other users.
  for (const folder of folders) chmodSync(folder, 0o1777);
  return async () => {
    for (const folder of folders) await removeFolder(folder);
  };
}

/**
 * The workers write their compiled code when they exit, which may be while the folder is being removed. `rmSync` then
 * fails, or returns although the folder is still there.
 */
export async function removeFolder(folder: string, remove = removeTree): Promise<void> {
  for (let tries = 1; ; tries++) {
    try {
      remove(folder);
    } catch (error) {
      if (tries === REMOVE_TRIES) throw error;
    }
    if (!existsSync(folder)) return;
    if (tries === REMOVE_TRIES) throw new Error(`${folder} could not be removed.`);
    await setTimeout(100);
  }
}

const removeTree = (folder: string) => rmSync(folder, { recursive: true, force: true });

function isLargeTmpfs(folder: string): boolean {
  try {
    const { type, bavail, bsize } = statfsSync(folder);
    return type === TMPFS && bavail * bsize >= NEEDED_BYTES;
  } catch {
    return false;
  }
}
