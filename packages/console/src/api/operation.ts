/** A long-running request that reports its progress and can be cancelled. */
import { type Client, createClient } from "@backplane/client";
import type { ProgressEvent } from "@backplane/contract";

export interface StartedOperation<T> {
  result: Promise<T>;
  /** Aborts the request; the gateway then stops its work. */
  cancel(): void;
}

/** The client that `work` gets belongs to this operation, so only its requests report progress here. */
export function startOperation<T>(
  work: (client: Client) => Promise<T>,
  onProgress: (event: ProgressEvent) => void,
): StartedOperation<T> {
  const abort = new AbortController();
  const client = createClient({
    url: location.origin,
    fetch: (input, init) => fetch(input, init),
    observe: () => ({ signal: abort.signal, progress: onProgress, end() {} }),
  });
  return { result: work(client), cancel: () => abort.abort() };
}
