import { BackplaneError, type ProgressReport } from "@backplane/contract";

/** The caller's side of long-running work: receives progress reports and can cancel the work. */
export interface Operation {
  /** Aborted when the caller no longer waits for the result. Work that has begun to commit finishes nevertheless. */
  readonly signal: AbortSignal;
  report(progress: ProgressReport): void;
}

/** For work that nobody watches. It is never cancelled. */
export function unwatchedOperation(): Operation {
  return { signal: new AbortController().signal, report() {} };
}

/** Throws `request.cancelled` if the operation was cancelled. */
export function requireNotCancelled({ signal }: Pick<Operation, "signal">): void {
  if (signal.aborted) throw new BackplaneError("request.cancelled");
}
