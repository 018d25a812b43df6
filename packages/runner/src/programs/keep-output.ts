/**
 * Keeps the unread output of a child until a reader is attached. When a child exits, Node resumes its streams so that
 * they close, and whatever a program wrote while nobody listened would be lost: usually the reason for its early exit.
 */
import type { Readable } from "node:stream";

/** The output is read by the first listener for `data` or by iterating; `resume()` alone does not discard it. */
export function keepOutput(stream: Readable): void {
  // resume() does not set a stream flowing that has a listener for `readable`.
  const keep = () => {};
  const release = (event: string | symbol) => {
    if (event !== "data") return;
    stream.removeListener("newListener", release);
    stream.removeListener("readable", keep);
  };
  stream.on("readable", keep);
  stream.on("newListener", release);
}

export function discardOutput(stream: Readable): void {
  stream.on("data", () => {});
}
