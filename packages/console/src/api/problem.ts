/** A failed request as a page shows it: the code, what happened, how to fix it and the id to search the log for. */
import { toBackplaneError } from "@backplane/contract";

export interface Problem {
  code: string;
  message: string;
  fix: string;
  request_id: string | null;
}

export function problemOf(error: unknown): Problem {
  const { code, message, fix, details } = toBackplaneError(error);
  const request_id = details?.request_id;
  return { code, message, fix, request_id: typeof request_id === "string" ? request_id : null };
}
