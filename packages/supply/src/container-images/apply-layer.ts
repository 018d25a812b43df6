/** Applies one layer of a container image: an untrusted tar, with or without gzip or zstd. */
import { createHash } from "node:crypto";
import type { FileHandle } from "node:fs/promises";
import { pipeline } from "node:stream/promises";
import { createGunzip, createZstdDecompress } from "node:zlib";
import { codeOf } from "@backplane/contract";
import { extract as createExtract, type Header } from "tar-stream";
import { after, readHead } from "../archive/inflate.ts";
import { unsafe } from "../archive/unsafe.ts";
import type { ImageTree } from "./image-tree.ts";

export interface ImageLimits {
  /** The limits of all layers together count files that a later layer removes too. */
  entries: number;
  unpacked_bytes: number;
}

const GIB = 1024 * 1024 * 1024;
export const IMAGE_LIMITS: ImageLimits = { entries: 200_000, unpacked_bytes: 2 * GIB };

/** Collects the contents of all layers. */
export interface LayerSpool {
  handle: FileHandle;
  /** Its length. */
  bytes: number;
  entries: number;
  unpacked: number;
}

/** Returns the `sha256:…` of the uncompressed layer. Throws `package.unsafe`. */
export async function applyLayer(
  tree: ImageTree,
  layer: number,
  bytes: AsyncIterable<Uint8Array>,
  spool: LayerSpool,
  limits: ImageLimits,
): Promise<string> {
  const hash = createHash("sha256");
  const extract = createExtract();
  const applied = (async () => {
    for await (const entry of extract) {
      if (++spool.entries > limits.entries)
        throw unsafe("too-many-entries", `the image has more than ${limits.entries} entries`);
      await applyEntry(tree, layer, entry.header, entry as unknown as AsyncIterable<Uint8Array>, spool);
      entry.resume();
    }
  })();
  const read = async function* () {
    for await (const chunk of decompress(bytes)) {
      spool.unpacked += chunk.length;
      if (spool.unpacked > limits.unpacked_bytes)
        throw unsafe("too-large", `the image unpacks to more than ${limits.unpacked_bytes} bytes`);
      hash.update(chunk);
      yield chunk;
    }
  };
  const fed = pipeline(read(), extract as unknown as NodeJS.WritableStream);
  const results = await Promise.allSettled([fed, applied]);
  const failures = results.flatMap((side) => (side.status === "rejected" ? [side.reason as unknown] : []));
  if (failures.length > 0) throw failures.find((each) => codeOf(each) !== undefined) ?? garbage(failures[0]);
  return `sha256:${hash.digest("hex")}`;
}

async function applyEntry(
  tree: ImageTree,
  layer: number,
  { name, type, linkname, mode }: Header,
  content: AsyncIterable<Uint8Array>,
  spool: LayerSpool,
): Promise<void> {
  if (tree.applyWhiteout(name, layer)) return;
  if (type === "directory") return tree.addFolder(name, layer);
  if (type === "symlink") return tree.addLink(name, linkname ?? "", layer);
  if (type === "link") return tree.addHardLink(name, linkname ?? "", layer);
  if (type === "file" || type === "contiguous-file") {
    const offset = spool.bytes;
    for await (const chunk of content) {
      await spool.handle.write(chunk, 0, chunk.length, spool.bytes);
      spool.bytes += chunk.length;
    }
    // Setuid, setgid and sticky bits are dropped with the rest of the mode.
    return tree.addFile(name, (mode & 0o111) !== 0, { offset, size: spool.bytes - offset }, layer);
  }
  // The sandbox has its own /dev, whatever the image contains there.
  if (/^(?:\.?\/)?dev\//.test(name)) return;
  throw unsafe("device", `it is a ${type ?? "file of an unknown type"}`, name);
}

const ZSTD = [0x28, 0xb5, 0x2f, 0xfd];

async function* decompress(bytes: AsyncIterable<Uint8Array>): AsyncGenerator<Uint8Array, void> {
  const iterator = bytes[Symbol.asyncIterator]();
  const head = await readHead(iterator, 4);
  const whole = after(head, iterator);
  const gzip = head[0] === 0x1f && head[1] === 0x8b;
  const zstd = ZSTD.every((byte, index) => head[index] === byte);
  if (!gzip && !zstd) {
    yield* whole;
    return;
  }
  const stream = gzip ? createGunzip({ chunkSize: 64 * 1024 }) : createZstdDecompress();
  const fed = pipeline(whole, stream);
  fed.catch(() => {});
  try {
    for await (const chunk of stream as AsyncIterable<Uint8Array>) yield chunk;
    await fed;
  } finally {
    stream.destroy();
  }
}

/** An error of a parser or of a decompressor means a bad layer; one of the disk does not. */
function garbage(error: unknown): unknown {
  const { code = "" } = error as { code?: string };
  if (/^E[A-Z]+$/.test(code)) return error;
  return unsafe("garbage", "a layer cannot be read as a tar archive", undefined, error);
}
