/**
 * Decompresses a tar.gz, recognized by its first bytes, and refuses decompression bombs. A plain tar passes unchanged.
 */
import { pipeline } from "node:stream";
import { createGunzip } from "node:zlib";
import type { UnpackLimits } from "./limits.ts";
import { unsafe } from "./unsafe.ts";

export async function* inflate(
  source: AsyncIterable<Uint8Array>,
  limits: UnpackLimits,
): AsyncGenerator<Uint8Array, void> {
  const iterator = source[Symbol.asyncIterator]();
  let finished = false;
  try {
    const head = await readHead(iterator, 2);
    const compressed = { bytes: 0 };
    const bytes = countBytes(prepend(head, iterator), compressed);
    if (head[0] === 0x1f && head[1] === 0x8b) yield* gunzip(bytes, compressed, limits);
    else yield* bytes;
    finished = true;
  } finally {
    if (!finished) await iterator.return?.();
  }
}

/** Reads at least `bytes` bytes, or all if there are fewer, however small the chunks are. */
export async function readHead(iterator: AsyncIterator<Uint8Array>, bytes: number): Promise<Uint8Array> {
  let head: Uint8Array = new Uint8Array();
  while (head.length < bytes) {
    const next = await iterator.next();
    if (next.done === true) break;
    head = head.length === 0 ? next.value : Buffer.concat([head, next.value]);
  }
  return head;
}

/** Yields the head, which was already read from the iterator, and then the remaining chunks. */
export async function* prepend(
  head: Uint8Array,
  iterator: AsyncIterator<Uint8Array>,
): AsyncGenerator<Uint8Array, void> {
  if (head.length > 0) yield head;
  for (let next = await iterator.next(); next.done !== true; next = await iterator.next()) yield next.value;
}

async function* countBytes(
  bytes: AsyncGenerator<Uint8Array, void>,
  compressed: { bytes: number },
): AsyncGenerator<Uint8Array, void> {
  for await (const chunk of bytes) {
    compressed.bytes += chunk.length;
    yield chunk;
  }
}

async function* gunzip(
  bytes: AsyncGenerator<Uint8Array, void>,
  compressed: { bytes: number },
  limits: UnpackLimits,
): AsyncGenerator<Uint8Array, void> {
  const stream = createGunzip({ chunkSize: 64 * 1024, rejectGarbageAfterEnd: true });
  pipeline(bytes, stream, () => {});
  let unpacked = 0;
  try {
    for await (const chunk of stream as AsyncIterable<Uint8Array>) {
      unpacked += chunk.length;
      if (unpacked > limits.ratio_from_bytes && unpacked > compressed.bytes * limits.ratio) {
        throw unsafe("bomb", `it unpacks to more than ${limits.ratio} times its size`);
      }
      yield chunk;
    }
  } catch (error) {
    const code = String((error as { code?: unknown }).code);
    if (!/^(Z_|ERR_TRAILING_JUNK|ERR__ZLIB)/.test(code)) throw error;
    throw unsafe("garbage", "its gzip data is damaged or truncated", undefined, error);
  } finally {
    stream.destroy();
  }
}
