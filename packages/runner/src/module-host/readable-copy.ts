/**
 * A copy of a plugin's folder that every user can read. If the gateway runs as root, a sandboxed plugin runs as its own
 * user and cannot read a linked folder of mode 0700. The gateway must not change the modes of an operator's folder.
 */
import { constants } from "node:fs";
import { chmod, copyFile, mkdir, readdir, readlink, stat, symlink } from "node:fs/promises";
import { join } from "node:path";

/** Whether a sandboxed plugin cannot enter this folder or read this file. Always false if the gateway is not root. */
export async function isUnreadable(path: string): Promise<boolean> {
  if (process.getuid?.() !== 0) return false;
  const info = await stat(path);
  const needed = info.isDirectory() ? 0o005 : 0o004;
  return (info.mode & needed) !== needed;
}

/** `into` must not exist. It may be below `from` if it is in `excluded`. Links are copied as links. */
export async function copyReadable(from: string, into: string, excluded: readonly string[]): Promise<void> {
  await mkdir(into);
  await chmod(into, 0o755);
  for (const entry of await readdir(from, { withFileTypes: true })) {
    const source = join(from, entry.name);
    const target = join(into, entry.name);
    if (excluded.includes(source)) continue;
    if (entry.isDirectory()) await copyReadable(source, target, excluded);
    else if (entry.isSymbolicLink()) await symlink(await readlink(source), target);
    else if (entry.isFile()) {
      await copyFile(source, target, constants.COPYFILE_FICLONE);
      await chmod(target, ((await stat(source)).mode & 0o100) === 0 ? 0o644 : 0o755);
    }
  }
}
