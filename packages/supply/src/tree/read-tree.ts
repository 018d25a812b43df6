/** Hashes all files below a folder: a few at a time, large ones in chunks, without following links. */
import { createHash, hash } from "node:crypto";
import { constants } from "node:fs";
import { type FileHandle, open, readdir } from "node:fs/promises";
import { join } from "node:path";
import { listTree, type TreeFile, type TreeListing } from "./tree-listing.ts";

const MAX_CONCURRENT = 8;
/** Hashing is synchronous, so a chunk must not block the event loop for more than about a millisecond. */
const CHUNK_BYTES = 256 * 1024;
const READ = constants.O_RDONLY | (constants.O_NOFOLLOW ?? 0);

export interface FoundTree {
  files: string[];
  /** Links, devices and other special files, and empty folders. */
  irregular: string[];
}

/** `sha256:…` of the files below `dir`, as `unpackArchive` and the content store compute it. */
export async function computeTreeDigest(dir: string): Promise<string> {
  return (await readTree(dir)).digest;
}

async function readTree(dir: string): Promise<TreeListing> {
  const { files } = await findFiles(dir);
  return listTree(await mapConcurrently(files, (path) => readTreeFile(dir, path)));
}

export async function findFiles(dir: string, below = ""): Promise<FoundTree> {
  const tree: FoundTree = { files: [], irregular: [] };
  const entries = await readdir(join(dir, below), { withFileTypes: true });
  if (entries.length === 0 && below !== "") tree.irregular.push(below);
  for (const entry of entries) {
    const path = below === "" ? entry.name : `${below}/${entry.name}`;
    if (entry.isFile()) tree.files.push(path);
    else if (entry.isDirectory()) {
      const inner = await findFiles(dir, path);
      tree.files.push(...inner.files);
      tree.irregular.push(...inner.irregular);
    } else tree.irregular.push(path);
  }
  return tree;
}

export async function readTreeFile(dir: string, path: string): Promise<TreeFile> {
  const handle = await open(join(dir, path), READ);
  try {
    const { mode, size } = await handle.stat();
    const sha256 = size <= CHUNK_BYTES ? await hashSmall(handle, size) : await hashLarge(handle);
    return { path, mode: (mode & 0o111) === 0 ? "0644" : "0755", size, sha256 };
  } finally {
    await handle.close();
  }
}

/** Reads the content of one listed file; null when it does not match the listing. */
export async function readListed(dir: string, { path, size, sha256 }: TreeFile): Promise<Buffer | null> {
  const handle = await open(join(dir, path), READ | (constants.O_NONBLOCK ?? 0)).catch(() => null);
  if (handle === null) return null;
  try {
    const { bytesRead, buffer } = await handle.read(Buffer.alloc(size + 1), 0, size + 1, 0);
    const bytes = buffer.subarray(0, bytesRead);
    return hash("sha256", bytes, "hex") === sha256 ? bytes : null;
  } catch {
    return null;
  } finally {
    await handle.close();
  }
}

export async function mapConcurrently<T, R>(
  items: readonly T[],
  work: (item: T) => Promise<R>,
): Promise<R[]> {
  const results = Array.from<R>({ length: items.length });
  let next = 0;
  const worker = async () => {
    while (next < items.length) {
      const index = next++;
      results[index] = await work(items[index] as T);
    }
  };
  await Promise.all(Array.from({ length: Math.min(MAX_CONCURRENT, items.length) }, worker));
  return results;
}

async function hashSmall(handle: FileHandle, size: number): Promise<string> {
  // One byte more than expected, so that a file that grew is detected.
  const { bytesRead, buffer } = await handle.read(Buffer.allocUnsafe(size + 1), 0, size + 1, 0);
  return hash("sha256", buffer.subarray(0, bytesRead), "hex");
}

async function hashLarge(handle: FileHandle): Promise<string> {
  const sum = createHash("sha256");
  const buffer = Buffer.allocUnsafe(CHUNK_BYTES);
  for (;;) {
    const { bytesRead } = await handle.read(buffer, 0, CHUNK_BYTES, null);
    if (bytesRead === 0) return sum.digest("hex");
    sum.update(buffer.subarray(0, bytesRead));
  }
}
