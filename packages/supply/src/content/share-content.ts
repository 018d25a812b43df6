/**
 * The content store of a gateway that shares its database with others. Trees that are installed here are also stored in
 * the database, and trees that are missing here are fetched from it
 * (docs/decisions/0049-package-bytes-in-the-database.md). Every other guarantee is that of the local store: a tree that
 * exists here is never compared with the database and never replaced from it, even when it is damaged.
 */
import { createHash } from "node:crypto";
import { constants } from "node:fs";
import { type FileHandle, open } from "node:fs/promises";
import { join } from "node:path";
import { diskFault } from "@backplane/contract";
import {
  type Logger,
  type Operation,
  requireNotCancelled,
  type SharedFile,
  type SharedPackages,
  unwatchedOperation,
} from "@backplane/ports";
import { formatListing, type TreeFile } from "../tree/tree-listing.ts";
import { type ContentStore, corruptPackage } from "./content-store.ts";
import { DigestLocks } from "./digest-locks.ts";
import { fetchPackage } from "./fetch-package.ts";

export interface ShareContentOptions {
  local: ContentStore;
  shared: SharedPackages;
  /** Aborts fetches and background uploads. */
  signal: AbortSignal;
  log: Logger;
}

export interface SharedContentStore extends ContentStore {
  /**
   * Stores the installed packages that the database lacks, in the background: those that a version without shared
   * packages has installed, and those of a restored home.
   */
  shareInstalled(): void;
  /** Waits for fetches and background work. The database must still be open. */
  close(): Promise<void>;
}

const READ_BYTES = 256 * 1024;
/** Non-blocking, so that a FIFO in place of a file does not block. */
const READ = constants.O_RDONLY | (constants.O_NOFOLLOW ?? 0) | (constants.O_NONBLOCK ?? 0);

export function shareContent({ local, shared, signal, log }: ShareContentOptions): SharedContentStore {
  // The steps for one digest run in the order in which they were requested, so that a package is removed only after
  // it was released.
  const locks = new DigestLocks();
  const hold_counts = new Map<string, number>();
  const fetching = new Map<string, Promise<void>>();
  const background = new Set<Promise<void>>();
  let sharing: Promise<void> | null = null;

  const runInBackground = (work: Promise<void>): void => {
    background.add(work);
    void work.finally(() => background.delete(work));
  };

  const hold = (digest: string): void => {
    hold_counts.set(digest, (hold_counts.get(digest) ?? 0) + 1);
  };

  const release = (digest: string): void => {
    const remaining = (hold_counts.get(digest) ?? 0) - 1;
    if (remaining > 0) {
      hold_counts.set(digest, remaining);
      return;
    }
    hold_counts.delete(digest);
    const releasing = locks.run(digest, async () => {
      if (!hold_counts.has(digest)) await shared.release(digest);
    });
    runInBackground(
      releasing.catch((error: unknown) => {
        log.warn({ err: error, digest }, "the files of a package stay protected in the database for an hour");
      }),
    );
  };

  const removeShared = (digest: string): Promise<void> =>
    locks.run(digest, async () => {
      if (!hold_counts.has(digest)) await shared.remove(digest);
    });

  /** Holds the package; the caller releases it. */
  const store = async (
    tree: string,
    digest: string,
    files: readonly TreeFile[],
    operation: Operation,
  ): Promise<void> => {
    hold(digest);
    await locks.run(digest, () => shared.store(digest, toSharedFiles(tree, digest, files, operation)));
  };

  const fetchIfMissing = async (digest: string): Promise<void> => {
    if (await local.has(digest)) return;
    let pending = fetching.get(digest);
    if (pending === undefined) {
      pending = fetchPackage(shared, local, digest, signal).finally(() => fetching.delete(digest));
      fetching.set(digest, pending);
      runInBackground(pending.catch(() => {}));
    }
    await pending;
  };

  const shareMissing = async (): Promise<void> => {
    for (const digest of await shared.findMissing(await local.listDigests())) {
      if (signal.aborted) return;
      try {
        const files = await local.listFiles(digest);
        try {
          await store(local.treeOf(digest), digest, files, { signal, report() {} });
        } finally {
          release(digest);
        }
      } catch (error) {
        if (signal.aborted) return;
        log.warn({ err: error, digest }, "an installed package could not be stored in the database");
      }
    }
  };

  const shareInstalled = (): void => {
    if (sharing !== null || signal.aborted) return;
    sharing = shareMissing()
      .catch((error: unknown) => {
        log.warn({ err: error }, "the installed packages could not be compared with the database");
      })
      .finally(() => {
        sharing = null;
      });
    runInBackground(sharing);
  };

  return {
    treeOf: (digest) => local.treeOf(digest),
    listDigests: () => local.listDigests(),
    async verifyTree(digest) {
      await fetchIfMissing(digest);
      return await local.verifyTree(digest);
    },
    has: async (digest) => (await local.has(digest)) || (await shared.find(digest)) !== null,
    async listFiles(digest) {
      await fetchIfMissing(digest);
      return await local.listFiles(digest);
    },
    release(digest) {
      local.release(digest);
      release(digest);
    },
    async discard(digest, isUsed) {
      await local.discard(digest, isUsed);
      await removeShared(digest);
    },
    async sweep(isUsed, min_age_ms) {
      const removed = await local.sweep(isUsed, min_age_ms);
      // An upload may have failed since the start, or another gateway may have removed files that are in use again.
      shareInstalled();
      return removed + (await shared.sweep(min_age_ms));
    },
    async stage() {
      const staging = await local.stage();
      return {
        tree: staging.tree,
        // The database comes first, so that a failure leaves nothing here and a package row implies its files.
        async install(listing, operation = unwatchedOperation()) {
          const { digest } = listing;
          try {
            await store(staging.tree, digest, listing.files, operation);
            await staging.install(listing, operation);
          } catch (error) {
            release(digest);
            await removeShared(digest).catch((failure: unknown) => {
              log.warn({ err: failure, digest }, "unused files of a package stay in the database");
            });
            throw error;
          }
        },
        end: () => staging.end(),
      };
    },
    shareInstalled,
    async close() {
      while (background.size > 0) await Promise.all(background);
    },
  };
}

/**
 * Returns the listing and each distinct content once. Reading a file reports the progress, and throws after the
 * operation was cancelled.
 */
function toSharedFiles(
  tree: string,
  digest: string,
  files: readonly TreeFile[],
  operation: Operation,
): SharedFile[] {
  const text = Buffer.from(formatListing(files));
  const listing_hash = digest.slice("sha256:".length);
  const contents = new Map<string, SharedFile>();
  contents.set(listing_hash, {
    sha256: listing_hash,
    bytes: text.length,
    async *read() {
      yield text;
    },
  });
  let done = 0;
  for (const file of files) {
    const { sha256, size: bytes } = file;
    if (contents.has(sha256)) continue;
    contents.set(sha256, {
      sha256,
      bytes,
      async *read() {
        requireNotCancelled(operation);
        yield* readVerified(tree, digest, file);
        done += 1;
        const message = "Storing the files in the database";
        operation.report({ step: "unpack", message, done, unit: "files" });
      },
    });
  }
  return [...contents.values()];
}

/** Throws `package.corrupt` if the file differs from its listing. */
async function* readVerified(tree: string, digest: string, file: TreeFile): AsyncGenerator<Uint8Array> {
  const changed = () => corruptPackage(digest, { file: file.path, what: "changed" });
  let handle: FileHandle;
  try {
    handle = await open(join(tree, file.path), READ);
  } catch (error) {
    throw diskFault(error, "the gateway's home (blobs)") ?? changed();
  }
  try {
    const hash = createHash("sha256");
    for (let at = 0; at < file.size; ) {
      const length = Math.min(READ_BYTES, file.size - at);
      const { bytesRead, buffer } = await handle.read(Buffer.allocUnsafe(length), 0, length, at);
      if (bytesRead === 0) throw changed();
      const chunk = buffer.subarray(0, bytesRead);
      hash.update(chunk);
      at += bytesRead;
      yield chunk;
    }
    if (hash.digest("hex") !== file.sha256) throw changed();
  } catch (error) {
    throw diskFault(error, "the gateway's home (blobs)") ?? error;
  } finally {
    await handle.close();
  }
}
