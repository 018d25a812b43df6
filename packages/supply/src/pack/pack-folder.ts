/** Packs a folder reproducibly: sorted, without times and owners, with only two file modes. */
import { createHash } from "node:crypto";
import { once } from "node:events";
import { createReadStream } from "node:fs";
import { join } from "node:path";
import { Transform, type Writable } from "node:stream";
import { pipeline } from "node:stream/promises";
import { createGzip } from "node:zlib";
import { BackplaneError } from "@backplane/contract";
import { pack as createPack, type Pack } from "tar-stream";
import type { TreeFile, TreeListing } from "../tree/tree-listing.ts";
import { surveyFolder } from "./survey-folder.ts";

export interface PackedFolder {
  digest: string;
  /** The total size of the files, not of the archive. */
  size_bytes: number;
  files: string[];
}

/** Without `out` nothing is written; the result describes what would be packed. */
export async function packFolder(dir: string, out?: Writable): Promise<PackedFolder> {
  const listing = await surveyFolder(dir);
  if (out !== undefined)
    await pipeline(
      packTar(() => dir, listing),
      createGzip({ level: 9 }),
      withoutPlatform(),
      out,
    );
  return {
    digest: listing.digest,
    size_bytes: listing.size_bytes,
    files: listing.files.map((file) => file.path),
  };
}

/**
 * Yields a tar of the listed files. `dirOf` returns the folder that contains a file. Throws when a file differs from
 * the listing.
 */
export async function* packTar(
  dirOf: (path: string) => string,
  listing: TreeListing,
): AsyncGenerator<Uint8Array, void> {
  const pack = createPack();
  let failure: unknown;
  const filling = writeEntries(pack, dirOf, listing).catch((error: unknown) => {
    failure = error;
    pack.destroy(error as Error);
  });
  try {
    for await (const chunk of pack as unknown as AsyncIterable<Uint8Array>) yield chunk;
  } catch (error) {
    throw failure ?? error;
  } finally {
    pack.destroy();
    await filling;
  }
}

async function writeEntries(
  pack: Pack,
  dirOf: (path: string) => string,
  listing: TreeListing,
): Promise<void> {
  for (const file of listing.files) await addFile(pack, dirOf(file.path), file);
  pack.finalize();
}

async function addFile(pack: Pack, dir: string, file: TreeFile): Promise<void> {
  const { path, size } = file;
  const mode = file.mode === "0755" ? 0o755 : 0o644;
  const header = { name: path, size, mode, mtime: new Date(0), uid: 0, gid: 0, uname: "", gname: "" };
  const written = Promise.withResolvers<void>();
  const done = (error?: Error | null) => (error ? written.reject(error) : written.resolve());
  const entry = pack.entry(header, done) as unknown as Writable;
  // The stream and the callback report the same error; only the callback is used.
  entry.on("error", () => {});
  written.promise.catch(() => {});
  const sum = createHash("sha256");
  let bytes = 0;
  for await (const chunk of createReadStream(join(dir, path)) as AsyncIterable<Buffer>) {
    bytes += chunk.length;
    if (bytes > size) throw changedWhilePacked(path);
    sum.update(chunk);
    if (!entry.write(chunk)) await waitForDrain(entry, written.promise);
  }
  if (bytes !== size || sum.digest("hex") !== file.sha256) throw changedWhilePacked(path);
  entry.end();
  await written.promise;
}

/** Resolves when the stream accepts data again, or when its reader has finished. */
async function waitForDrain(entry: Writable, ended: Promise<void>): Promise<void> {
  const stop = new AbortController();
  try {
    await Promise.race([once(entry, "drain", { signal: stop.signal }), ended]);
  } finally {
    stop.abort();
  }
}

function changedWhilePacked(path: string): BackplaneError {
  return new BackplaneError(
    "package.source_invalid",
    `${path} changed while it was packed; pack the folder again.`,
  );
}

/** Byte 9 of a gzip header is the operating system; 255 means unknown. */
export function withoutPlatform(): Transform {
  let at = 0;
  return new Transform({
    transform(chunk: Buffer, _encoding, done) {
      if (at <= 9 && at + chunk.length > 9) chunk[9 - at] = 255;
      at += chunk.length;
      done(null, chunk);
    },
  });
}
