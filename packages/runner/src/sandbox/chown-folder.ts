/**
 * Gives a plugin's own folder, and all that lies in it, to the user of its next process: slots have different users,
 * and root may have been there. By descriptors and never through a link, for an older process of the same plugin may
 * still be at work in there and change what a path means.
 */
import { closeSync, constants, fchownSync, openSync } from "node:fs";
import { lchown, lstat, readdir } from "node:fs/promises";
import { join } from "node:path";

const { O_RDONLY, O_DIRECTORY, O_NOFOLLOW } = constants;

export async function giveFolder(folder: string, uid: number): Promise<void> {
  const fd = openFolder(folder);
  if (fd === null) return;
  try {
    fchownSync(fd, uid, uid);
    // Node has no openat; the descriptor's own name in /proc serves as one.
    const here = `/proc/self/fd/${fd}`;
    for (const name of await readdir(here)) {
      const path = join(here, name);
      const info = await lstat(path).catch(() => null);
      if (info === null) continue;
      if (info.isDirectory()) await giveFolder(path, uid);
      else if (info.uid !== uid) await lchown(path, uid, uid).catch(unlessGone);
    }
  } finally {
    closeSync(fd);
  }
}

/** Null: it is a folder no more. */
function openFolder(path: string): number | null {
  try {
    return openSync(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW);
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    if (code === "ENOENT" || code === "ENOTDIR" || code === "ELOOP") return null;
    throw error;
  }
}

function unlessGone(error: NodeJS.ErrnoException): void {
  if (error.code !== "ENOENT") throw error;
}
