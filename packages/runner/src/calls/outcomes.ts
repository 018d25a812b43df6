/** Outcomes of calls that the plugin did not answer, and what the exit of its process adds to an answer. */
import { BackplaneError, type JsonObject } from "@backplane/contract";
import type { RunRequest } from "@backplane/ports";
import type { Worker } from "../pool/worker.ts";
import { failedAnswer, type PluginAnswer } from "../ports/answer.ts";
import { describeStderr } from "../programs/describe-stderr.ts";
import { describeExit } from "../programs/diagnose-launch.ts";
import { exceededLimit } from "../sandbox/exit-cause.ts";

export type Interruption = "deadline" | "user" | "shutdown";

/** For a call that waited for its process, `start_failure` explains why the last start failed. */
export function interruptedAnswer(
  reason: Interruption,
  request: RunRequest,
  start_failure: string | null = null,
): PluginAnswer {
  if (reason === "deadline") {
    const message = `The plugin did not answer within the remaining ${Math.round(request.timeout_ms)} ms.`;
    const more = start_failure === null ? "" : ` Its last start failed: ${start_failure}`;
    return failedAnswer(new BackplaneError("timeout", `${message}${more}`));
  }
  const code = reason === "user" ? "cancelled" : "gateway_stopping";
  return { status: "cancelled", result: null, error: { code, message: new BackplaneError(code).message } };
}

const STDERR_BYTES = 16_384;

/** Adds the exit status or kill reason and the error on stderr to a call whose process exited. */
export function crashedAnswer(worker: Worker, answer: PluginAnswer): PluginAnswer {
  const error = crashError(worker, "call");
  return error === null ? answer : failedAnswer(error);
}

/** Null if the process was not killed and has no exit status. */
export function crashError(worker: Worker, work: "call" | "request"): BackplaneError | null {
  const { exit, kill_reason } = worker.process;
  if (kill_reason !== null) {
    const message = `The plugin's process was stopped while this ${work} ran: ${kill_reason}.`;
    return new BackplaneError("crashed", message, { details: { reason: kill_reason } });
  }
  if (exit === null) return null;
  const errors = describeStderr(worker.process.stderr.since(0, STDERR_BYTES).toString("utf8"));
  const message = `The plugin ${describeExit(exit)}.${errors === null ? "" : ` ${errors}`}`;
  return new BackplaneError("crashed", message, { details: { exit_code: exit.code, signal: exit.signal } });
}

/** Names the resource limit that the plugin exceeded, even for a call that timed out. */
export function withExceededLimit({ process }: Worker, answer: PluginAnswer): PluginAnswer {
  const limit = exceededLimit(process.exitCause);
  if (limit === null || answer.error === null || answer.error.details?.cause !== undefined) return answer;
  const { error } = answer;
  const message = `${error.message} ${limit.message}`;
  const details: JsonObject = { ...error.details, cause: limit.cause };
  if (limit.fix !== undefined) details.fix ??= limit.fix;
  return { ...answer, error: { ...error, message, details } };
}
