/**
 * Gives a plugin's own folder to the user that its next process has: slots have different users, and the last process
 * had another. Links are given, not followed, and nobody runs in there meanwhile: the pool sees to that.
 */
import { lchown, readdir } from "node:fs/promises";
import { join } from "node:path";

export async function giveFolder(folder: string, uid: number): Promise<void> {
  await lchown(folder, uid, uid);
  for (const entry of await readdir(folder, { withFileTypes: true })) {
    const path = join(folder, entry.name);
    if (entry.isDirectory()) await giveFolder(path, uid);
    else await lchown(path, uid, uid);
  }
}
