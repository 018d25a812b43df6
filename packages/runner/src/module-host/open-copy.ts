/**
 * A copy of a plugin's folder that everybody may read. Where the gateway is root, a plugin in the sandbox is a user of
 * its own, to whom a linked folder of mode 0700 is closed; changing the modes of an operator's folder is not ours.
 */
import { chmod, cp, readdir, stat } from "node:fs/promises";
import { join } from "node:path";

/** Whether another user than its owner can go into this folder, or read this file. */
export async function isClosed(path: string): Promise<boolean> {
  if (process.getuid?.() !== 0) return false;
  const info = await stat(path);
  const needed = info.isDirectory() ? 0o005 : 0o004;
  return (info.mode & needed) !== needed;
}

/** `into` must not be there yet. Links are copied as they are. */
export async function openCopy(from: string, into: string, left_out: readonly string[]): Promise<void> {
  await cp(from, into, {
    recursive: true,
    verbatimSymlinks: true,
    filter: (path) => !left_out.includes(path),
  });
  await open(into, 0o755);
}

async function open(folder: string, mode: number): Promise<void> {
  await chmod(folder, mode);
  for (const entry of await readdir(folder, { withFileTypes: true })) {
    const path = join(folder, entry.name);
    if (entry.isDirectory()) await open(path, mode);
    else if (entry.isFile()) await chmod(path, 0o644 | ((await stat(path)).mode & 0o100 ? 0o111 : 0));
  }
}
