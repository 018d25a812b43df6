/**
 * Copies bytes in one direction with backpressure. `countBytes` is called before each chunk is written; a chunk for
 * which it returns false is dropped. Pauses while the session is held.
 */
import type { Readable, Writable } from "node:stream";
import type { EgressState } from "./egress-state.ts";

/**
 * The limit for bytes buffered for a slow reader. `write` returns false for any chunk over the high-water mark, even if
 * the kernel accepted it, so the buffered length is checked instead.
 */
const WAITING_BYTES = 256 * 1024;

export function pump(
  from: Readable,
  to: Writable,
  countBytes: (bytes: number) => boolean,
  state: Pick<EgressState, "addFlow">,
): void {
  let waiting = false;
  let held = false;
  const onDrain = () => {
    if (waiting && !held) from.resume();
    waiting = false;
  };
  from.on("data", (chunk: Buffer) => {
    if (!countBytes(chunk.length) || to.destroyed) return;
    if (to.write(chunk) || to.writableLength < WAITING_BYTES) return;
    waiting = true;
    from.pause();
  });
  to.on("drain", onDrain);
  from.resume();
  const removeFlow = state.addFlow({
    hold: (is_held) => {
      held = is_held;
      if (held) from.pause();
      else if (!waiting) from.resume();
    },
  });
  from.once("close", removeFlow);
  from.once("end", () => {
    removeFlow();
    to.removeListener("drain", onDrain);
    if (!to.destroyed) to.end();
  });
}
