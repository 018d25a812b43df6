import { BackplaneError, type ProgressReport } from "@backplane/contract";

/** The request behind long-running work. It receives the progress, and when it ends, the work stops. */
export interface Operation {
  /** Aborted when nobody waits for the result any more. Work that has begun to commit finishes nevertheless. */
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
