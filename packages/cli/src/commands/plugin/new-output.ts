/**
 * Creates files and folders at paths that must not exist yet. Nothing is overwritten, with one exception: without hard
 * links, a file that another process creates at the last moment is replaced.
 */
import { type FileHandle, link, open, rename, rm } from "node:fs/promises";
import { BackplaneError, diskFault } from "@backplane/contract";

/** Creates a file and fills it. An archive is never overwritten, because its digest may have been published. */
export async function writeNewFile<T>(file: string, write: (target: FileHandle) => Promise<T>): Promise<T> {
  const target = await open(file, "wx").catch((error: unknown) => {
    throw newOutputError(error, file);
  });
  try {
    return await write(target);
  } catch (error) {
    await rm(file, { force: true });
    throw error;
  }
}

/** Both paths must be on one file system. A link fails where a rename would overwrite. */
export async function moveToNewFile(draft: string, file: string): Promise<void> {
  try {
    await link(draft, file);
  } catch (error) {
    if (!NO_LINKS.has((error as NodeJS.ErrnoException).code ?? "")) throw newOutputError(error, file);
    await rename(draft, file);
  }
}

/** Both paths must be on one file system. A rename of a folder replaces nothing but an empty folder. */
export async function moveToNewFolder(draft: string, folder: string): Promise<void> {
  try {
    await rename(draft, folder);
  } catch (error) {
    // A folder cannot replace a file.
    if ((error as NodeJS.ErrnoException).code === "ENOTDIR") throw unwritableError(folder, "already exists");
    throw newOutputError(error, folder);
  }
}

export function newOutputError(error: unknown, path: string): Error {
  const exists = EXISTS.has((error as NodeJS.ErrnoException).code ?? "");
  return diskFault(error, path) ?? unwritableError(path, exists ? "already exists" : "cannot be written");
}

export function unwritableError(path: string, reason: string): BackplaneError {
  return new BackplaneError("cli.usage", `${path} ${reason}.`, { fix: "Choose another path with -o." });
}

const EXISTS: ReadonlySet<string> = new Set(["EEXIST", "ENOTEMPTY"]);
/** The errors of a file system without hard links. */
const NO_LINKS: ReadonlySet<string> = new Set(["EPERM", "ENOTSUP", "EOPNOTSUPP", "ENOSYS"]);
