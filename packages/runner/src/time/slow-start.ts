/** A start that ran out of time. It is retryable and does not count as a crash of the plugin. */
import { BackplaneError } from "@backplane/contract";
import type { TimeBudgetVerdict } from "./time-budget.ts";

const WHY: Record<Exclude<TimeBudgetVerdict, "idle">, string> = {
  busy: "It was computing all that time.",
  starved: "The machine is too busy to run it.",
};

/** Converts the error of a failed start; `verdict` is that of the time limit that ended it, null if none did. */
export function asSlowStart(error: BackplaneError, verdict: TimeBudgetVerdict | null): BackplaneError {
  if (verdict === null) return error;
  const details = { ...error.details, slow_start: true };
  // A process that only waited failed its handshake regardless of the load; `launch_failed` has its own diagnosis.
  if (verdict === "idle" || error.code === "launch_failed") {
    const { code, fix, message } = error;
    return new BackplaneError(code, message, { details, fix, retryable: true, cause: error });
  }
  return new BackplaneError("slow_start", `${error.message} ${WHY[verdict]}`, { details, cause: error });
}

export function isSlowStart(error: Pick<BackplaneError, "details">): boolean {
  return error.details?.slow_start === true;
}
