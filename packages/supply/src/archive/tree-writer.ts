/** Writes the files of an archive below a new folder. It never overwrites a file and never follows a link. */
import { createHash } from "node:crypto";
import { constants } from "node:fs";
import { mkdir, open } from "node:fs/promises";
import { dirname, join } from "node:path";
import type { TreeFile } from "../tree/tree-listing.ts";

const CREATE = constants.O_CREAT | constants.O_EXCL | constants.O_WRONLY | (constants.O_NOFOLLOW ?? 0);

interface FileToWrite {
  path: string;
  size: number;
  executable: boolean;
}

export interface TreeWriter {
  /** Creates the folder of a file. Empty folders are not part of a package. */
  makeParentFolder(path: string): Promise<void>;
  write(bytes: AsyncIterable<Uint8Array> | Iterable<Uint8Array>, file: FileToWrite): Promise<TreeFile>;
}

/** Receives the bytes of one file while it is written or read. */
export interface FileScan {
  /** Scans the next bytes of the file. */
  push(chunk: Uint8Array): void;
}

export function createTreeWriter(root: string, scan?: (path: string) => FileScan): TreeWriter {
  const folders = new Set<string>([root]);
  // One level at a time, because the recursive mkdir of Node reports a quota or an I/O error as ENOENT.
  const makeFolder = async (folder: string) => {
    if (folders.has(folder)) return;
    await makeFolder(dirname(folder));
    await mkdir(folder, { mode: 0o755 }).catch(ignoreExisting);
    folders.add(folder);
  };
  const makeParentFolder = (path: string) => makeFolder(dirname(join(root, path)));
  return {
    makeParentFolder,
    async write(bytes, { path, size, executable }) {
      await makeParentFolder(path);
      const mode = executable ? 0o755 : 0o644;
      const hash = createHash("sha256");
      const file_scan = scan?.(path);
      const handle = await open(join(root, path), CREATE, mode);
      try {
        for await (const chunk of bytes) {
          hash.update(chunk);
          file_scan?.push(chunk);
          await handle.writeFile(chunk);
        }
        await handle.chmod(mode);
      } finally {
        await handle.close();
      }
      return { path, mode: executable ? "0755" : "0644", size, sha256: hash.digest("hex") };
    },
  };
}

/** The folder may exist already, because another of its files is written at the same time. */
function ignoreExisting(error: NodeJS.ErrnoException): void {
  if (error.code !== "EEXIST") throw error;
}
