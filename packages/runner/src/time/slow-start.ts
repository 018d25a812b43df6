/** A start that ran out of time. It says nothing against the plugin: it may be tried again and is no crash. */
import { BackplaneError } from "@backplane/contract";
import type { Verdict } from "./time-budget.ts";

const WHY: Record<Exclude<Verdict, "idle">, string> = {
  busy: "It was computing all that time.",
  starved: "The machine is too busy to let it run.",
};

/** The error of a failed start; `late`: which limit of time ended it, null when none did. */
export function asSlowStart(error: BackplaneError, late: Verdict | null): BackplaneError {
  if (late === null) return error;
  const details = { ...error.details, slow_start: true };
  // One that only waited did not introduce itself, whatever the machine had to do; `launch_failed` has its own diagnosis.
  if (late === "idle" || error.code === "launch_failed") {
    const { code, fix, message } = error;
    return new BackplaneError(code, message, { details, fix, retryable: true, cause: error });
  }
  return new BackplaneError("slow_start", `${error.message} ${WHY[late]}`, { details, cause: error });
}

export function isSlowStart(error: Pick<BackplaneError, "details">): boolean {
  return error.details?.slow_start === true;
}
