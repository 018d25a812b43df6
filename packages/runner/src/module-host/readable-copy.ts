/**
 * A copy of a plugin's folder that everybody may read. Where the gateway is root, a plugin in the sandbox is a user of
 * its own, to whom a linked folder of mode 0700 is closed; changing the modes of an operator's folder is not ours.
 */
import { constants } from "node:fs";
import { chmod, copyFile, mkdir, readdir, readlink, stat, symlink } from "node:fs/promises";
import { join } from "node:path";

/** Whether another user than its owner cannot go into this folder, or not read this file. */
export async function isClosed(path: string): Promise<boolean> {
  if (process.getuid?.() !== 0) return false;
  const info = await stat(path);
  const needed = info.isDirectory() ? 0o005 : 0o004;
  return (info.mode & needed) !== needed;
}

/** `into` must not be there yet, and may lie below `from` in what is left out. Links are copied as they are. */
export async function openCopy(from: string, into: string, left_out: readonly string[]): Promise<void> {
  await mkdir(into);
  await chmod(into, 0o755);
  for (const entry of await readdir(from, { withFileTypes: true })) {
    const source = join(from, entry.name);
    const target = join(into, entry.name);
    if (left_out.includes(source)) continue;
    if (entry.isDirectory()) await openCopy(source, target, left_out);
    else if (entry.isSymbolicLink()) await symlink(await readlink(source), target);
    else if (entry.isFile()) {
      await copyFile(source, target, constants.COPYFILE_FICLONE);
      await chmod(target, ((await stat(source)).mode & 0o100) === 0 ? 0o644 : 0o755);
    }
  }
}
