/**
 * What the kernel says of each file and folder of a tree. Whoever changes content, mode or names changes the times of a
 * file or of its folder, so an equal fingerprint means an unchanged tree, for one lstat each instead of reading every
 * byte. A time can be set back by utimes, but the time of the last inode change (ctime) cannot.
 */
import { type BigIntStats, lstatSync } from "node:fs";
import { dirname, join } from "node:path";
import type { TreeFile } from "../tree/tree-listing.ts";

const FIELDS = 6;
/** lstat is synchronous, a few microseconds each: a slice must not hold the event loop for a millisecond. */
const SLICE = 128;

export interface Fingerprint {
  /** How many paths it holds. */
  readonly size: number;
  /** The first path that is not what it was; null: all are. */
  changed(): Promise<string | null>;
}

/** Of the listed files, their folders and `dir` itself. A path that is missing stays missing, or it has changed. */
export async function takeFingerprint(dir: string, files: readonly TreeFile[]): Promise<Fingerprint> {
  const paths = pathsOf(files);
  const known = new BigInt64Array(paths.length * FIELDS);
  await inSlices(paths.length, (index) => {
    write(known, index, stat(dir, paths[index] as string));
    return true;
  });
  return {
    size: paths.length,
    async changed() {
      const now = new BigInt64Array(FIELDS);
      const at = await inSlices(paths.length, (index) => {
        write(now, 0, stat(dir, paths[index] as string));
        for (let field = 0; field < FIELDS; field++) {
          if (now[field] !== known[index * FIELDS + field]) return false;
        }
        return true;
      });
      return at === null ? null : (paths[at] as string) || ".";
    },
  };
}

/** Files first: whoever looks for the cause is told a file and not the folder that holds it. */
function pathsOf(files: readonly TreeFile[]): string[] {
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
    // A folder above it is a file now, or cannot be entered.
    return undefined;
  }
}

function write(into: BigInt64Array, index: number, info: BigIntStats | undefined): void {
  const { dev = -1n, ino = -1n, mode = -1n, size = -1n, mtimeNs = -1n, ctimeNs = -1n } = info ?? {};
  const at = index * FIELDS;
  into[at] = dev;
  into[at + 1] = ino;
  into[at + 2] = mode;
  into[at + 3] = size;
  into[at + 4] = mtimeNs;
  into[at + 5] = ctimeNs;
}

/** Stops at the first index for which `holds` is false and answers it. */
async function inSlices(count: number, holds: (index: number) => boolean): Promise<number | null> {
  for (let index = 0; index < count; index++) {
    if (index > 0 && index % SLICE === 0) await new Promise((resolve) => setImmediate(resolve));
    if (!holds(index)) return index;
  }
  return null;
}
