/** What every vendor's SDK needs around its stream: the platform's abort signal, and a torn stream called so. */
import type { StopSignal } from "@backplane/contract";
import { brokenStream } from "./llm-failure.ts";

/** The kernel's stop signal as the platform's own. `release` ends the link. */
export function abortable(stop: StopSignal): { signal: AbortSignal; release: () => void } {
  const controller = new AbortController();
  const abort = () => controller.abort();
  if (stop.aborted) abort();
  else stop.addEventListener("abort", abort, { once: true });
  return { signal: controller.signal, release: () => stop.removeEventListener("abort", abort) };
}

/** Half a line of JSON is what is left of a stream that was cut. */
export async function* untorn<T>(stream: AsyncIterable<T>): AsyncGenerator<T, void, undefined> {
  try {
    yield* stream;
  } catch (error) {
    throw error instanceof SyntaxError ? brokenStream(error) : error;
  }
}
