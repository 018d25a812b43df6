/**
 * The inode data of each file and folder of a tree. A change of content, mode or names changes the times of a file or
 * of its folder, so an equal fingerprint means an unchanged tree, at the cost of one lstat per path instead of reading
 * every byte. The modification time can be set back with utimes; the time of the last inode change (ctime) cannot.
 */
import { type BigIntStats, lstatSync } from "node:fs";
import { dirname, join } from "node:path";
import type { TreeFile } from "../tree/tree-listing.ts";

const FIELDS = 6;
/** lstat is synchronous and takes a few microseconds; a slice must not block the event loop for a millisecond. */
const SLICE = 128;

export interface Fingerprint {
  /** The number of paths. */
  readonly size: number;
  /** The first path that has changed; null when none has. */
  findChange(): Promise<string | null>;
}

/** Covers the listed files, their folders and `dir` itself. A missing path that appears later counts as changed. */
export async function takeFingerprint(
  dir: string,
  files: readonly Pick<TreeFile, "path">[],
): Promise<Fingerprint> {
  const paths = pathsOf(files);
  const recorded = new BigInt64Array(paths.length * FIELDS);
  await findFirstFailing(paths.length, (index) => {
    storeInfo(recorded, index, stat(dir, paths[index] as string));
    return true;
  });
  return {
    size: paths.length,
    async findChange() {
      const now = new BigInt64Array(FIELDS);
      const changed = await findFirstFailing(paths.length, (index) => {
        storeInfo(now, 0, stat(dir, paths[index] as string));
        for (let field = 0; field < FIELDS; field++) {
          if (now[field] !== recorded[index * FIELDS + field]) return false;
        }
        return true;
      });
      return changed === null ? null : (paths[changed] as string) || ".";
    },
  };
}

/** Files first, so that a change is reported for the file and not for its folder. */
function pathsOf(files: readonly Pick<TreeFile, "path">[]): string[] {
  const folders = new Set<string>([""]);
  for (const { path } of files) {
    for (let folder = dirname(path); folder !== "."; folder = dirname(folder)) {
      if (folders.has(folder)) break;
      folders.add(folder);
    }
  }
  return [...files.map(({ path }) => path), ...folders];
}

function stat(dir: string, path: string): BigIntStats | undefined {
  try {
    return lstatSync(join(dir, path), { bigint: true, throwIfNoEntry: false });
  } catch {
    // A parent is a file now, or cannot be entered.
    return undefined;
  }
}

function storeInfo(into: BigInt64Array, index: number, info: BigIntStats | undefined): void {
  const { dev = -1n, ino = -1n, mode = -1n, size = -1n, mtimeNs = -1n, ctimeNs = -1n } = info ?? {};
  const at = index * FIELDS;
  into[at] = dev;
  into[at + 1] = ino;
  into[at + 2] = mode;
  into[at + 3] = size;
  into[at + 4] = mtimeNs;
  into[at + 5] = ctimeNs;
}

/** Returns the first index for which `holds` is false; null when there is none. */
async function findFirstFailing(count: number, holds: (index: number) => boolean): Promise<number | null> {
  for (let index = 0; index < count; index++) {
    if (index > 0 && index % SLICE === 0) await new Promise((resolve) => setImmediate(resolve));
    if (!holds(index)) return index;
  }
  return null;
}
