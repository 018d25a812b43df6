/**
 * Changes the owner of a plugin's folder and its contents to the user of the next process: slots have different
 * users, and root may have created files. It works on descriptors and never follows links, because an older process
 * of the plugin can change the folder at the same time.
 */
import { closeSync, constants, fchownSync, openSync } from "node:fs";
import { lchown, lstat, readdir } from "node:fs/promises";
import { join } from "node:path";

const { O_RDONLY, O_DIRECTORY, O_NOFOLLOW } = constants;

export async function chownFolder(folder: string, uid: number): Promise<void> {
  const fd = openFolder(folder);
  if (fd === null) return;
  try {
    fchownSync(fd, uid, uid);
    // Node has no openat, so the path of the descriptor in /proc is used instead.
    const opened_path = `/proc/self/fd/${fd}`;
    for (const name of await readdir(opened_path)) {
      const path = join(opened_path, name);
      const info = await lstat(path).catch(() => null);
      if (info === null) continue;
      if (info.isDirectory()) await chownFolder(path, uid);
      else if (info.uid !== uid) await lchown(path, uid, uid).catch(ignoreMissing);
    }
  } finally {
    closeSync(fd);
  }
}

/** Null if the path is no longer a folder. */
function openFolder(path: string): number | null {
  try {
    return openSync(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW);
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    if (code === "ENOENT" || code === "ENOTDIR" || code === "ELOOP") return null;
    throw error;
  }
}

function ignoreMissing(error: NodeJS.ErrnoException): void {
  if (error.code !== "ENOENT") throw error;
}
