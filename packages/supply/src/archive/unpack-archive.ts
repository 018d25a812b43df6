/**
 * Unpacks an untrusted archive (pkg.unpack-safe): tar, tar.gz, zip or jar, recognized by its first bytes. Everything is
 * written into a temporary folder next to the target and renamed at the end, so a refused archive leaves no partial
 * tree. The result has only regular files with mode 0644 or 0755.
 */
import { mkdir, open, rename, rm } from "node:fs/promises";
import { dirname, join } from "node:path";
import { sweepStale, temporaryName } from "../files/temporary-folders.ts";
import { listTree, type TreeFile, type TreeListing } from "../tree/tree-listing.ts";
import { prepend, readHead } from "./inflate.ts";
import { UNPACK_LIMITS, type UnpackLimits } from "./limits.ts";
import { readZip } from "./read-zip.ts";
import { createTreeWriter, type FileScan } from "./tree-writer.ts";
import { unpackTar } from "./unpack-tar.ts";
import { unsafe } from "./unsafe.ts";
import type { ReadAt } from "./zip-directory.ts";

const PREFIX = ".unpack-";
/** How a zip begins; an empty zip begins with its end record. */
const ZIP_STARTS = ["PK\x03\x04", "PK\x05\x06"];

export async function unpackArchive(
  bytes: AsyncIterable<Uint8Array>,
  into: string,
  limits: UnpackLimits = UNPACK_LIMITS,
  scan?: (path: string) => FileScan,
): Promise<TreeListing> {
  const parent = dirname(into);
  sweepStale(parent, PREFIX);
  await mkdir(parent, { recursive: true });
  const temporary = join(parent, temporaryName(PREFIX));
  await mkdir(temporary, { mode: 0o755 });
  try {
    const listing = listTree(await unpackDetected(temporary, bytes, limits, scan));
    await rename(temporary, into);
    return listing;
  } catch (error) {
    await rm(temporary, { recursive: true, force: true });
    throw error;
  }
}

async function unpackDetected(
  root: string,
  bytes: AsyncIterable<Uint8Array>,
  limits: UnpackLimits,
  scan: ((path: string) => FileScan) | undefined,
): Promise<TreeFile[]> {
  const iterator = bytes[Symbol.asyncIterator]();
  let finished = false;
  try {
    const head = await readHead(iterator, 4);
    const stream = prepend(head, iterator);
    const is_zip = ZIP_STARTS.includes(Buffer.from(head.subarray(0, 4)).toString("latin1"));
    const files = is_zip
      ? await unpackZip(root, stream, limits, scan)
      : await unpackTar(root, stream, limits, scan);
    finished = true;
    return files;
  } finally {
    if (!finished) await iterator.return?.();
  }
}

/** A zip is read from its end, so it is first written to a file next to the target folder. */
async function unpackZip(
  root: string,
  bytes: AsyncIterable<Uint8Array>,
  limits: UnpackLimits,
  scan: ((path: string) => FileScan) | undefined,
): Promise<TreeFile[]> {
  const spool = join(dirname(root), temporaryName(PREFIX));
  const handle = await open(spool, "wx+", 0o600);
  try {
    let length = 0;
    for await (const chunk of bytes) {
      length += chunk.length;
      if (length > limits.unpacked_bytes) {
        throw unsafe("too-large", `it is larger than ${limits.unpacked_bytes} bytes`);
      }
      await handle.writeFile(chunk);
    }
    const readAt: ReadAt = async (offset, wanted) => {
      const { bytesRead, buffer } = await handle.read(Buffer.allocUnsafe(wanted), 0, wanted, offset);
      if (bytesRead !== wanted) throw unsafe("truncated", "it is truncated");
      return buffer;
    };
    const writer = createTreeWriter(root, scan);
    const files: TreeFile[] = [];
    for await (const { path, executable, content } of readZip(length, readAt, limits)) {
      files.push(await writer.write([content], { path, size: content.length, executable }));
    }
    return files;
  } finally {
    await handle.close();
    await rm(spool, { force: true });
  }
}
