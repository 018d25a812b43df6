/** What every vendor's SDK needs around its stream: the platform's abort signal, and a torn stream called so. */
import type { StopSignal } from "@backplane/contract";
import { brokenStream } from "./llm-failure.ts";

/** Opens a vendor's stream and passes it on; the kernel's stop ends it, also while it is being opened. */
export async function* vendorStream<T>(
  stop: StopSignal,
  open: (signal: AbortSignal) => PromiseLike<AsyncIterable<T>>,
): AsyncGenerator<T, void, undefined> {
  const controller = new AbortController();
  const abort = () => controller.abort();
  if (stop.aborted) abort();
  else stop.addEventListener("abort", abort, { once: true });
  try {
    yield* untorn(await open(controller.signal));
  } finally {
    stop.removeEventListener("abort", abort);
  }
}

/** Half a line of JSON is what is left of a stream that was cut. */
async function* untorn<T>(stream: AsyncIterable<T>): AsyncGenerator<T, void, undefined> {
  try {
    yield* stream;
  } catch (error) {
    throw error instanceof SyntaxError ? brokenStream(error) : error;
  }
}
