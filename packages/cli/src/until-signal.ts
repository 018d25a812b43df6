import { BackplaneError } from "@backplane/contract";
import type { Io } from "./io.ts";

/** Runs a stream until it ends by itself; Ctrl-C ends it cleanly with exit code 130. */
export async function untilSignal(io: Io, work: (signal: AbortSignal) => Promise<void>): Promise<void> {
  const stop = new AbortController();
  const silence = io.onSignal(() => stop.abort());
  try {
    await work(stop.signal);
  } catch (error) {
    if (!stop.signal.aborted) throw error;
  } finally {
    silence();
  }
  if (stop.signal.aborted) {
    throw new BackplaneError("cancelled", "Interrupted.", { details: { signal: "SIGINT" } });
  }
}
