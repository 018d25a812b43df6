/**
 * Installed packages, each tree stored by its digest and never changed (pkg.immutable):
 *
 *   sha256/HEX/tree/…    the files of the package, read-only
 *   sha256/HEX/listing   the text that the digest was computed from
 *   tmp/…                trees that are being installed or removed
 *
 * A tree is installed by one rename after everything is on disk, and removed by one rename, so a digest is complete or
 * absent even after a crash. Every folder above a tree has mode 0700.
 */
import { mkdirSync } from "node:fs";
import { chmod, mkdir, readdir, readFile, rename, rm, stat, utimes, writeFile } from "node:fs/promises";
import { dirname, join } from "node:path";
import { BackplaneError } from "@backplane/contract";
import { type Operation, requireNotCancelled, unwatchedOperation } from "@backplane/ports";
import { syncFile, syncFolder } from "../files/sync.ts";
import { sweepStale, temporaryName } from "../files/temporary-folders.ts";
import { mapConcurrently } from "../tree/read-tree.ts";
import {
  digestOf,
  formatListing,
  parseListing,
  type TreeFile,
  type TreeListing,
} from "../tree/tree-listing.ts";
import { type Difference, findDifference } from "../tree/verify-tree.ts";
import { DigestLocks } from "./digest-locks.ts";

export interface Staging {
  /** The path to unpack to, which does not exist yet, on the file system of the store. */
  tree: string;
  /**
   * Installs the staged tree. Idempotent; replaces a damaged tree. The tree cannot be removed before `release` is
   * called, so that it stays until its package row exists. Cancelling the operation has an effect only until the tree
   * is in place.
   */
  install(listing: TreeListing, operation?: Operation): Promise<void>;
  /** Removes the staging folder, whether its tree was installed or not. */
  end(): Promise<void>;
}

export interface ContentStore {
  /** Verifies every byte of the tree and returns its folder. Throws `package.corrupt` or `package.files_missing`. */
  verifyTree(digest: string): Promise<string>;
  /** The folder of the tree, which may be missing. Nothing runs from it, see package-images.ts. */
  treeOf(digest: string): string;
  stage(): Promise<Staging>;
  has(digest: string): Promise<boolean>;
  /** Lists the digests of all trees. */
  listDigests(): Promise<string[]>;
  /** Lists the files of the tree. Throws `package.files_missing` when the tree is missing. */
  listFiles(digest: string): Promise<TreeFile[]>;
  /** Ends the protection of one `install`. Call it when the package row exists or will not be written. */
  release(digest: string): void;
  /** Removes a tree that is neither protected by `install` nor used. An unknown digest is not an error. */
  discard(digest: string, isUsed?: () => Promise<boolean>): Promise<void>;
  /** Removes the unused trees that were installed at least `min_age_ms` ago, and returns how many. */
  sweep(isUsed: (digest: string) => Promise<boolean>, min_age_ms: number): Promise<number>;
}

/** `dir` is the home's `blobs` folder. */
export function openContentStore(dir: string): ContentStore {
  const temporary = join(dir, "tmp");
  mkdirSync(temporary, { recursive: true, mode: 0o700 });
  mkdirSync(join(dir, "sha256"), { recursive: true, mode: 0o700 });
  sweepStale(temporary, "");
  // The home belongs to this process alone, so locks in memory separate removals and imports of the same digest.
  const locks = new DigestLocks();
  const hold_counts = new Map<string, number>();
  const last_imports = new Map<string, number>();
  let import_count = 0;

  const hold = (digest: string): void => {
    hold_counts.set(digest, (hold_counts.get(digest) ?? 0) + 1);
    last_imports.set(digest, ++import_count);
  };

  const release = (digest: string): void => {
    const remaining = (hold_counts.get(digest) ?? 0) - 1;
    if (remaining > 0) hold_counts.set(digest, remaining);
    else hold_counts.delete(digest);
  };

  /** Keeps the tree if an import began while `isUnused` ran, because the import may have written its row afterwards. */
  const discardIfUnused = async (digest: string, isUnused: () => Promise<boolean>): Promise<boolean> => {
    const last_import = last_imports.get(digest);
    if (hold_counts.has(digest) || !(await isUnused())) return false;
    return await locks.run(digest, async () => {
      if (hold_counts.has(digest) || last_imports.get(digest) !== last_import) return false;
      await removeTree(digest);
      last_imports.delete(digest);
      return true;
    });
  };

  const folderOf = (digest: string): string => {
    const match = /^sha256:([0-9a-f]{64})$/.exec(digest);
    if (match === null)
      throw new BackplaneError("package.not_found", "There is no package with this digest.");
    return join(dir, "sha256", match[1] as string);
  };

  const removeTree = async (digest: string): Promise<void> => {
    const removed = join(temporary, temporaryName(""));
    try {
      await rename(folderOf(digest), removed);
    } catch (error) {
      if ((error as { code?: string }).code === "ENOENT") return;
      throw error;
    }
    await syncFolder(join(dir, "sha256"));
    await rm(removed, { recursive: true, force: true });
  };

  const verifyTree = async (digest: string): Promise<string> => {
    const folder = folderOf(digest);
    const difference = await checkFolder(folder, digest);
    if (difference === null) return join(folder, "tree");
    throw (await folderExists(folder)) ? corruptPackage(digest, difference) : missingFiles(digest);
  };

  const listDigests = async (): Promise<string[]> =>
    (await readdir(join(dir, "sha256")))
      .filter((name) => /^[0-9a-f]{64}$/.test(name))
      .map((name) => `sha256:${name}`);

  const isOld = async (digest: string, min_age_ms: number): Promise<boolean> => {
    const info = await stat(folderOf(digest)).catch(() => null);
    return info !== null && Date.now() - info.mtimeMs >= min_age_ms;
  };

  return {
    verifyTree,
    treeOf: (digest) => join(folderOf(digest), "tree"),
    async sweep(isUsed, min_age_ms) {
      let removed = 0;
      for (const digest of await listDigests()) {
        if (!(await isOld(digest, min_age_ms))) continue;
        const isUnused = async () => (await isOld(digest, min_age_ms)) && !(await isUsed(digest));
        if (await discardIfUnused(digest, isUnused)) removed++;
      }
      return removed;
    },
    has: (digest) => folderExists(folderOf(digest)),
    listDigests,
    async listFiles(digest) {
      const text = await readFile(join(folderOf(digest), "listing"), "utf8").catch(() => null);
      if (text === null) throw missingFiles(digest);
      if (digestOf(text) !== digest) throw corruptPackage(digest, { file: "listing", what: "changed" });
      return parseListing(text);
    },
    release,
    async discard(digest, isUsed) {
      await discardIfUnused(digest, async () => isUsed === undefined || !(await isUsed()));
    },
    async stage() {
      const staged = join(temporary, temporaryName(""));
      await mkdir(staged, { mode: 0o700 });
      const tree = join(staged, "tree");
      return {
        tree,
        async install(listing, operation = unwatchedOperation()) {
          const { digest } = listing;
          const target = folderOf(digest);
          await writeFile(join(staged, "listing"), formatListing(listing.files), { mode: 0o400, flag: "wx" });
          await makeDurable(staged, listing.files, operation);
          hold(digest);
          try {
            await locks.run(digest, async () => {
              // An existing tree stays if it is intact, since a process may be starting from it.
              if (!(await renameIfAbsent(staged, target)) && (await checkFolder(target, digest)) !== null) {
                await removeTree(digest);
                await renameIfAbsent(staged, target);
              }
              // A sweep must not remove a tree that is about to be used.
              await utimes(target, new Date(), new Date());
              await syncFolder(dirname(target));
            });
          } catch (error) {
            release(digest);
            throw error;
          }
        },
        end: () => rm(staged, { recursive: true, force: true }),
      };
    },
  };
}

/** False when a tree of this digest already exists. */
async function renameIfAbsent(staged: string, target: string): Promise<boolean> {
  try {
    await rename(staged, target);
    return true;
  } catch (error) {
    const code = (error as { code?: string }).code;
    if (code !== "ENOTEMPTY" && code !== "EEXIST") throw error;
    return false;
  }
}

export async function checkFolder(folder: string, digest: string): Promise<Difference | null> {
  let listing: TreeFile[];
  try {
    const text = await readFile(join(folder, "listing"), "utf8");
    if (digestOf(text) !== digest) return { file: "listing", what: "changed" };
    listing = parseListing(text);
  } catch {
    return { file: "listing", what: "missing" };
  }
  return await findDifference(join(folder, "tree"), listing);
}

function folderExists(folder: string): Promise<boolean> {
  return stat(folder).then(
    () => true,
    () => false,
  );
}

export function missingFiles(digest: string, places = "not in this gateway's home"): BackplaneError {
  return new BackplaneError("package.files_missing", `The files of ${digest} are ${places}.`, {
    details: { digest, what: "missing" },
  });
}

export function corruptPackage(digest: string, difference: Difference): BackplaneError {
  const { file, what, expected, actual } = difference;
  const change = what === "extra" ? "was added" : what === "missing" ? "is missing" : "was changed";
  const digests =
    expected === undefined || actual === undefined ? "" : ` (expected ${expected}, found ${actual})`;
  return new BackplaneError(
    "package.corrupt",
    `The installed files of ${digest} have changed: ${JSON.stringify(file)} ${change}${digests}.`,
    { details: { digest, ...difference } },
  );
}

/** Makes files read-only and flushes files and folders to disk, so that only the following rename can be lost. */
async function makeDurable(staged: string, files: readonly TreeFile[], operation: Operation): Promise<void> {
  const tree = join(staged, "tree");
  const folders = new Set<string>([tree]);
  for (const { path } of files) {
    for (let folder = dirname(path); folder !== "."; folder = dirname(folder))
      folders.add(join(tree, folder));
  }
  let done = 0;
  await mapConcurrently(files, async ({ path, mode }) => {
    requireNotCancelled(operation);
    const file = join(tree, path);
    await chmod(file, mode === "0755" ? 0o555 : 0o444);
    await syncFile(file);
    done += 1;
    const message = "Writing the files to disk";
    operation.report({ step: "unpack", message, done, total: files.length, unit: "files" });
  });
  await syncFile(join(staged, "listing"));
  await mapConcurrently([...folders], async (folder) => {
    await chmod(folder, 0o755);
    await syncFolder(folder);
  });
  await syncFolder(staged);
}
