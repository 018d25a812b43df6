/** Moves bytes one way with back-pressure; `take` is asked before each chunk and false ends it. Held with its border. */
import type { Readable, Writable } from "node:stream";
import type { Border } from "./egress-state.ts";

/**
 * What may wait in memory for a slow reader. `write` says "enough" of any chunk as large as its own mark, even one
 * that the kernel took at once, so what really waits is looked at instead.
 */
const WAITING_BYTES = 256 * 1024;

export function pump(
  from: Readable,
  to: Writable,
  take: (bytes: number) => boolean,
  border: Pick<Border, "join">,
): void {
  let waiting = false;
  let held = false;
  const onDrain = () => {
    if (waiting && !held) from.resume();
    waiting = false;
  };
  from.on("data", (chunk: Buffer) => {
    if (!take(chunk.length) || to.destroyed) return;
    if (to.write(chunk) || to.writableLength < WAITING_BYTES) return;
    waiting = true;
    from.pause();
  });
  to.on("drain", onDrain);
  from.resume();
  const leave = border.join({
    hold: (now) => {
      held = now;
      if (held) from.pause();
      else if (!waiting) from.resume();
    },
  });
  from.once("close", leave);
  from.once("end", () => {
    leave();
    to.removeListener("drain", onDrain);
    if (!to.destroyed) to.end();
  });
}
