/**
 * Stores artifacts of calls as files named by the hash of their content: artifacts/HEX with mode 0600, and
 * artifacts/tmp for files that are being written. A file is renamed into place after it is on disk. A sweep removes a
 * file by its age alone, counted from the last time that it was stored.
 */
import { createHash } from "node:crypto";
import { mkdirSync } from "node:fs";
import { type FileHandle, open, readdir, rename, rm, stat, utimes } from "node:fs/promises";
import { join } from "node:path";
import { BackplaneError, diskFault } from "@backplane/contract";
import type { ArtifactFiles } from "@backplane/ports";
import { syncFolder } from "../files/sync.ts";
import { sweepStale, temporaryName } from "../files/temporary-folders.ts";

/** Hashing is synchronous, so a chunk must not block the event loop for long. */
const CHUNK_BYTES = 256 * 1024;
const HEX = /^[0-9a-f]{64}$/;

/** `dir` is the home's `blobs` folder. */
export function openArtifactStore(dir: string): ArtifactFiles {
  const folder = join(dir, "artifacts");
  const temporary = join(folder, "tmp");
  mkdirSync(temporary, { recursive: true, mode: 0o700 });
  sweepStale(temporary, "");

  /** Sets the times of the file to now. Returns false if the file does not exist. */
  const touch = async (file: string): Promise<boolean> => {
    const now = new Date();
    return await utimes(file, now, now).then(
      () => true,
      () => false,
    );
  };

  return {
    async store(sha256, bytes) {
      if (!HEX.test(sha256)) throw new BackplaneError("internal", "An artifact has no valid hash.");
      const target = join(folder, sha256);
      if (await touch(target)) return;
      const draft = join(temporary, temporaryName(""));
      try {
        await write(draft, bytes);
        await rename(draft, target);
        await syncFolder(folder);
      } catch (error) {
        throw diskFault(error, "the gateway's home (blobs/artifacts)") ?? error;
      } finally {
        await rm(draft, { force: true });
      }
    },

    async open(sha256) {
      if (!HEX.test(sha256)) return null;
      const file = await open(join(folder, sha256), "r").catch(() => null);
      if (file === null) return null;
      // Verified before the first byte is sent, because a response cannot be withdrawn.
      const bytes = await measureIfIntact(file, sha256);
      if (bytes === null) {
        await file.close();
        return null;
      }
      return { bytes, content: readChunks(file) };
    },

    async sweep(min_age_ms) {
      let removed = 0;
      for (const name of await readdir(folder)) {
        if (!HEX.test(name)) continue;
        const info = await stat(join(folder, name)).catch(() => null);
        if (info === null || Date.now() - info.mtimeMs < min_age_ms) continue;
        await rm(join(folder, name), { force: true });
        removed++;
      }
      return removed;
    },
  };
}

async function write(draft: string, bytes: Uint8Array): Promise<void> {
  const handle = await open(draft, "wx", 0o600);
  try {
    await handle.writeFile(bytes);
    await handle.sync();
  } finally {
    await handle.close();
  }
}

/** Returns the size in bytes; null if the content does not match its hash. */
async function measureIfIntact(file: FileHandle, sha256: string): Promise<number | null> {
  const hash = createHash("sha256");
  const chunk = Buffer.allocUnsafe(CHUNK_BYTES);
  for (let at = 0; ; ) {
    const { bytesRead } = await file.read(chunk, 0, chunk.length, at);
    if (bytesRead === 0) return hash.digest("hex") === sha256 ? at : null;
    hash.update(chunk.subarray(0, bytesRead));
    at += bytesRead;
  }
}

/**
 * Reads the file in chunks and closes it. This is not a generator, because a generator that was never started would not
 * close the file when its reader gives up, and newer versions of Node exit when they garbage-collect an open file.
 */
function readChunks(file: FileHandle): AsyncIterableIterator<Uint8Array> {
  let at = 0;
  let closing: Promise<void> | undefined;
  const end = async (): Promise<IteratorReturnResult<undefined>> => {
    closing ??= file.close();
    await closing;
    return { done: true, value: undefined };
  };
  return {
    async next() {
      if (closing !== undefined) return await end();
      try {
        const chunk = Buffer.allocUnsafe(CHUNK_BYTES);
        const { bytesRead } = await file.read(chunk, 0, chunk.length, at);
        if (bytesRead === 0) return await end();
        at += bytesRead;
        return { done: false, value: chunk.subarray(0, bytesRead) };
      } catch (error) {
        await end();
        throw error;
      }
    },
    return: end,
    [Symbol.asyncIterator]() {
      return this;
    },
  };
}
