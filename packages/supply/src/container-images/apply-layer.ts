/** Applies one layer of a container image: an untrusted tar, with or without gzip or zstd. */
import { createHash } from "node:crypto";
import type { FileHandle } from "node:fs/promises";
import { pipeline } from "node:stream/promises";
import { createGunzip, createZstdDecompress } from "node:zlib";
import { BackplaneError, codeOf, diskFault } from "@backplane/contract";
import { extract as createExtract, type Header } from "tar-stream";
import { prepend, readHead } from "../archive/inflate.ts";
import { unsafeImage } from "../archive/unsafe.ts";
import { writeAll } from "../files/write-all.ts";
import type { ImageLimits } from "./image-limits.ts";
import type { ImageTree, StoredContent } from "./image-tree.ts";

/** Collects the contents of all layers, and counts towards their limits. */
export interface LayerSpool {
  handle: FileHandle;
  /** The length of the spool file. */
  bytes: number;
  /** The number of entries in all layers so far. */
  entries: number;
  /** The size of all uncompressed layers so far, in bytes. */
  unpacked: number;
}

/** Applies the layer to the tree and returns the `sha256:…` of the uncompressed layer. Throws `package.unsafe`. */
export async function applyLayer(
  tree: ImageTree,
  layer: number,
  bytes: AsyncIterable<Uint8Array>,
  spool: LayerSpool,
  limits: ImageLimits,
): Promise<string> {
  const hash = createHash("sha256");
  const extract = createExtract();
  /**
   * The number of bytes since the last entry or chunk of its content. It is limited, because the parser keeps an
   * extended header in memory until the header is complete.
   */
  let bytes_outside_files = 0;
  const readContent = async function* (entry: AsyncIterable<Uint8Array>) {
    for await (const chunk of entry) {
      bytes_outside_files = 0;
      yield chunk;
    }
  };
  const applying = (async () => {
    for await (const entry of extract) {
      bytes_outside_files = 0;
      if (++spool.entries > limits.entries)
        throw unsafeImage("too-many-entries", `the image has more than ${limits.entries} entries`);
      const content = readContent(entry as unknown as AsyncIterable<Uint8Array>);
      await applyEntry(tree, layer, entry.header, content, spool);
      // An entry that is not a file may have content too.
      for await (const _chunk of content);
    }
  })();
  const readChecked = async function* () {
    for await (const chunk of decompress(bytes)) {
      spool.unpacked += chunk.length;
      if (spool.unpacked > limits.unpacked_bytes)
        throw unsafeImage("too-large", `the image unpacks to more than ${limits.unpacked_bytes} bytes`);
      bytes_outside_files += chunk.length;
      if (bytes_outside_files > limits.header_bytes)
        throw unsafeImage(
          "extended-header",
          `a layer has more than ${limits.header_bytes} consecutive bytes that do not belong to a file`,
        );
      hash.update(chunk);
      yield chunk;
    }
  };
  const feeding = pipeline(readChecked(), extract as unknown as NodeJS.WritableStream);
  const results = await Promise.allSettled([feeding, applying]);
  const failures = results.flatMap((side) => (side.status === "rejected" ? [side.reason as unknown] : []));
  if (failures.length > 0)
    throw (
      failures.find((failure) => codeOf(failure) !== undefined || diskFault(failure) !== null) ??
      toLayerError(failures[0])
    );
  return `sha256:${hash.digest("hex")}`;
}

async function applyEntry(
  tree: ImageTree,
  layer: number,
  { name, type, linkname, mode, pax }: Header,
  content: AsyncIterable<Uint8Array>,
  spool: LayerSpool,
): Promise<void> {
  if (tree.applyWhiteout(name, layer)) return;
  if (Object.keys(pax ?? {}).some((key) => key.startsWith("GNU.sparse")))
    throw unsafeImage("sparse", "it is a sparse file", name);
  if (type === "directory") return tree.addFolder(name, layer);
  if (type === "symlink") return tree.addLink(name, linkname ?? "", layer);
  if (type === "link") return tree.addHardLink(name, linkname ?? "", layer);
  if (type === "file" || type === "contiguous-file") {
    const offset = spool.bytes;
    for await (const chunk of content) {
      await writeAll(spool.handle, chunk, spool.bytes);
      spool.bytes += chunk.length;
    }
    // Setuid, setgid and sticky bits are dropped with the rest of the mode.
    return tree.addFile(name, (mode & 0o111) !== 0, { offset, size: spool.bytes - offset }, layer);
  }
  // The sandbox has its own /dev, whatever the image contains there.
  if (/^(?:\.?\/)?dev\//.test(name)) return;
  throw unsafeImage("device", `it is a ${type ?? "file of an unknown type"}`, name);
}

const CHUNK_BYTES = 256 * 1024;

/** Yields chunks that share one buffer, so a caller must not keep them. Throws `package.corrupt` if bytes are missing. */
export async function* readSpool(
  handle: FileHandle,
  { offset, size }: StoredContent,
): AsyncGenerator<Uint8Array, void> {
  const buffer = Buffer.allocUnsafe(Math.min(size, CHUNK_BYTES));
  for (let done = 0; done < size; ) {
    const { bytesRead } = await handle.read(buffer, 0, Math.min(buffer.length, size - done), offset + done);
    if (bytesRead === 0)
      throw new BackplaneError("package.corrupt", "The contents of the image are truncated.");
    yield buffer.subarray(0, bytesRead);
    done += bytesRead;
  }
}

const ZSTD = [0x28, 0xb5, 0x2f, 0xfd];

async function* decompress(bytes: AsyncIterable<Uint8Array>): AsyncGenerator<Uint8Array, void> {
  const iterator = bytes[Symbol.asyncIterator]();
  const head = await readHead(iterator, 4);
  const all_bytes = prepend(head, iterator);
  const gzip = head[0] === 0x1f && head[1] === 0x8b;
  const zstd = ZSTD.every((byte, index) => head[index] === byte);
  if (!gzip && !zstd) {
    yield* all_bytes;
    return;
  }
  const stream = gzip ? createGunzip({ chunkSize: 64 * 1024 }) : createZstdDecompress();
  const feeding = pipeline(all_bytes, stream);
  feeding.catch(() => {});
  try {
    for await (const chunk of stream as AsyncIterable<Uint8Array>) yield chunk;
    await feeding;
  } finally {
    stream.destroy();
  }
}

/** A parser or decompressor error means a damaged layer; a disk error does not. */
function toLayerError(error: unknown): unknown {
  const { code = "" } = error as { code?: string };
  if (/^E[A-Z]+$/.test(code)) return error;
  return unsafeImage("garbage", "a layer cannot be read as a tar archive", undefined, error);
}
