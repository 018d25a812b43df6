/** Reads a record for a decision that must not be based on a failed read. */
import { setTimeout as sleep } from "node:timers/promises";
import { toBackplaneError } from "@backplane/contract";

/**
 * Repeats a read that fails temporarily, for example because the gateway restarts. Resolves to null if the read fails
 * for another reason, or once the signal aborts.
 */
export async function retryRead<T>(
  read: () => Promise<T>,
  { signal, pause_ms = PAUSE_MS }: { signal: AbortSignal; pause_ms?: number },
): Promise<T | null> {
  while (!signal.aborted) {
    try {
      const record = await read();
      return signal.aborted ? null : record;
    } catch (error) {
      if (!toBackplaneError(error).retryable) return null;
      await sleep(pause_ms, undefined, { signal }).catch(() => undefined);
    }
  }
  return null;
}

const PAUSE_MS = 500;
