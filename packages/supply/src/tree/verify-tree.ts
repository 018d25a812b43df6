/** Compares a tree with its listing and returns the first difference. */
import { codeOf } from "@backplane/contract";
import { findFiles, mapConcurrently, readTreeFile } from "./read-tree.ts";
import type { TreeFile } from "./tree-listing.ts";

export interface Difference {
  file: string;
  what: "changed" | "missing" | "extra";
  /** Mode and digest of a changed file that can be read, as listed and as found. */
  expected?: string;
  actual?: string;
}

export async function findDifference(dir: string, listing: readonly TreeFile[]): Promise<Difference | null> {
  const name_difference = await findNameDifference(dir, listing);
  if (name_difference !== null) return name_difference;
  const compared = await mapConcurrently(listing, (file) => compare(dir, file));
  return compared.find((difference) => difference !== null) ?? null;
}

/** Compares names and kinds only: files that are missing, were added, or are no longer files. */
export async function findNameDifference(
  dir: string,
  listing: readonly TreeFile[],
): Promise<Difference | null> {
  const tree = await findFiles(dir).catch(() => null);
  if (tree === null) return { file: ".", what: "missing" };
  const listed = new Map(listing.map((file) => [file.path, file]));
  const existing = new Set(tree.files);
  const missing = listing.find((file) => !existing.has(file.path));
  // A listed path that is now a link, a special file or an empty folder counts as changed, not as missing.
  if (missing !== undefined) {
    return { file: missing.path, what: tree.irregular.includes(missing.path) ? "changed" : "missing" };
  }
  const extra = [...tree.files, ...tree.irregular].find((path) => !listed.has(path));
  return extra === undefined ? null : { file: extra, what: "extra" };
}

async function compare(dir: string, expected: TreeFile): Promise<Difference | null> {
  const file = expected.path;
  try {
    const actual = await readTreeFile(dir, file);
    const [was, is] = [describe(expected), describe(actual)];
    return was === is ? null : { file, what: "changed", expected: was, actual: is };
  } catch (error) {
    if (codeOf(error) !== undefined) throw error;
    // The file vanished or cannot be read, so it is not what was installed.
    return { file, what: "changed" };
  }
}

/** Omits the size, because another size means another digest. */
function describe({ mode, sha256 }: TreeFile): string {
  return `${mode} sha256:${sha256}`;
}
