/** Compares a tree with its listing, byte by byte, and names the first difference. */
import { codeOf } from "@backplane/contract";
import { findFiles, inTurns, readTreeFile } from "./read-tree.ts";
import type { TreeFile } from "./tree-listing.ts";

export interface Difference {
  file: string;
  what: "changed" | "missing" | "extra";
}

export async function differenceOf(dir: string, listing: readonly TreeFile[]): Promise<Difference | null> {
  const misnamed = await nameDifferenceOf(dir, listing);
  if (misnamed !== null) return misnamed;
  const compared = await inTurns(listing, (file) => isSame(dir, file));
  const changed = compared.indexOf(false);
  return changed === -1 ? null : { file: (listing[changed] as TreeFile).path, what: "changed" };
}

/** Of names and kinds alone: what is missing, what was added, what is not a file any more. */
export async function nameDifferenceOf(
  dir: string,
  listing: readonly TreeFile[],
): Promise<Difference | null> {
  const found = await findFiles(dir).catch(() => null);
  if (found === null) return { file: ".", what: "missing" };
  const listed = new Map(listing.map((file) => [file.path, file]));
  const there = new Set(found.files);
  const missing = listing.find((file) => !there.has(file.path));
  // A listed path that is now a link or a folder is there, but it is not the file.
  if (missing !== undefined) {
    return { file: missing.path, what: found.oddities.includes(missing.path) ? "changed" : "missing" };
  }
  const extra = [...found.files, ...found.oddities].find((path) => !listed.has(path));
  return extra === undefined ? null : { file: extra, what: "extra" };
}

async function isSame(dir: string, expected: TreeFile): Promise<boolean> {
  try {
    const { mode, size, sha256 } = await readTreeFile(dir, expected.path);
    return mode === expected.mode && size === expected.size && sha256 === expected.sha256;
  } catch (error) {
    if (codeOf(error) !== undefined) throw error;
    // It vanished or cannot be read: either way these are not the installed bytes.
    return false;
  }
}
