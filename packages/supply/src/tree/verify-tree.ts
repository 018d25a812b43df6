/** Compares a tree with its listing, byte by byte, and names the first difference. */
import { codeOf } from "@backplane/contract";
import { findFiles, inTurns, readTreeFile } from "./read-tree.ts";
import type { TreeFile } from "./tree-listing.ts";

export interface Difference {
  file: string;
  what: "changed" | "missing" | "extra";
  /** Of a file that was changed and can be read: mode and digest, as listed and as they are. */
  expected?: string;
  actual?: string;
}

export async function differenceOf(dir: string, listing: readonly TreeFile[]): Promise<Difference | null> {
  const misnamed = await nameDifferenceOf(dir, listing);
  if (misnamed !== null) return misnamed;
  const compared = await inTurns(listing, (file) => compare(dir, file));
  return compared.find((difference) => difference !== null) ?? null;
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

async function compare(dir: string, expected: TreeFile): Promise<Difference | null> {
  const file = expected.path;
  try {
    const actual = await readTreeFile(dir, file);
    const [was, is] = [markOf(expected), markOf(actual)];
    return was === is ? null : { file, what: "changed", expected: was, actual: is };
  } catch (error) {
    if (codeOf(error) !== undefined) throw error;
    // It vanished or cannot be read: either way these are not the installed bytes.
    return { file, what: "changed" };
  }
}

/** The size goes without saying: other sizes have other digests. */
function markOf({ mode, sha256 }: TreeFile): string {
  return `${mode} sha256:${sha256}`;
}
