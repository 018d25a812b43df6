import { open } from "node:fs/promises";

/** Flushes a file to disk. */
export async function syncFile(path: string): Promise<void> {
  const handle = await open(path, "r");
  try {
    await handle.sync();
  } finally {
    await handle.close();
  }
}

/** Flushes the entries of a folder to disk. Windows cannot do that; its renames are journaled. */
export async function syncFolder(path: string): Promise<void> {
  if (process.platform !== "win32") await syncFile(path);
}
