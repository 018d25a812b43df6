/**
 * Stream handling that every vendor's SDK needs: the platform's abort signal, and a typed error for a stream
 * that was cut off.
 */
import type { StopSignal } from "@backplane/contract";
import { brokenStream } from "./llm-failure.ts";

/**
 * Opens a vendor's stream and forwards it; the kernel's stop signal ends the stream, even while it is being
 * opened.
 */
export async function* vendorStream<T>(
  stop: StopSignal,
  open: (signal: AbortSignal) => PromiseLike<AsyncIterable<T>>,
): AsyncGenerator<T, void, undefined> {
  const controller = new AbortController();
  const abort = () => controller.abort();
  if (stop.aborted) abort();
  else stop.addEventListener("abort", abort, { once: true });
  try {
    const stream = await open(controller.signal);
    try {
      yield* stream;
    } catch (error) {
      // A stream that was cut off ends in an incomplete line of JSON, which the vendor's SDK fails to parse.
      throw error instanceof SyntaxError ? brokenStream(error) : error;
    }
  } finally {
    stop.removeEventListener("abort", abort);
  }
}
