/** Moves bytes one way with back-pressure; `take` is asked before each chunk and false ends it. */
import type { Readable, Writable } from "node:stream";

/**
 * What may wait in memory for a slow reader. `write` says "enough" of any chunk as large as its own mark, even one
 * that the kernel took at once, so what really waits is looked at instead.
 */
const WAITING_BYTES = 256 * 1024;

export function pump(from: Readable, to: Writable, take: (bytes: number) => boolean): void {
  let waiting = false;
  const onDrain = () => {
    if (waiting) from.resume();
    waiting = false;
  };
  from.on("data", (chunk: Buffer) => {
    if (!take(chunk.length) || to.destroyed) return;
    if (to.write(chunk) || to.writableLength < WAITING_BYTES) return;
    waiting = true;
    from.pause();
  });
  to.on("drain", onDrain);
  from.once("end", () => {
    to.removeListener("drain", onDrain);
    if (!to.destroyed) to.end();
  });
  from.resume();
}
