/** A stream of server events for one page. It runs while the tab is connected, and restarts after a reconnect. */
import { useEffect, useState, useSyncExternalStore } from "react";
import { useServices } from "./services.ts";

export interface LiveStream {
  /** The error that ended the stream; null if there is none. */
  error: unknown;
  retry: () => void;
}

/** `run` resumes after the last item that it has received. A new `run` function restarts the stream. */
export function useLiveStream(run: (signal: AbortSignal) => Promise<void>): LiveStream {
  const { live } = useServices();
  const connected = useSyncExternalStore(live.onState, () => live.state() === "live");
  const [error, setError] = useState<unknown>(null);
  const [attempt, setAttempt] = useState(0);
  // biome-ignore lint/correctness/useExhaustiveDependencies: another attempt restarts the stream
  useEffect(() => {
    if (!connected) return undefined;
    const stop = new AbortController();
    setError(null);
    run(stop.signal).catch((cause: unknown) => {
      if (!stop.signal.aborted) setError(cause);
    });
    return () => stop.abort();
  }, [connected, run, attempt]);
  return { error, retry: () => setAttempt((count) => count + 1) };
}
