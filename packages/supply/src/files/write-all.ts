import type { FileHandle } from "node:fs/promises";

/**
 * Writes the whole chunk at this position. A single `write` may write only a part of it, for example on a nearly full
 * disk.
 */
export async function writeAll(handle: FileHandle, chunk: Uint8Array, at: number): Promise<void> {
  for (let done = 0; done < chunk.length; ) {
    const { bytesWritten } = await handle.write(chunk, done, chunk.length - done, at + done);
    done += bytesWritten;
  }
}
