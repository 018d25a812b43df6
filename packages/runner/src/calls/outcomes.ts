/** How a call ends when the plugin did not say so itself, and what its process's end adds to it. */
import { BackplaneError } from "@backplane/contract";
import type { RunOrder } from "@backplane/ports";
import type { Worker } from "../pool/worker.ts";
import { type Answer, failedAnswer } from "../ports/answer.ts";
import { ended, lastWords } from "../programs/diagnose-launch.ts";
import { limitMet } from "../sandbox/cause-of-death.ts";

export type Interruption = "deadline" | "user" | "shutdown";

export function interrupted(why: Interruption, order: RunOrder): Answer {
  if (why === "deadline") {
    const message = `The plugin did not answer within the ${Math.round(order.timeout_ms)} ms that were left for it.`;
    return failedAnswer(new BackplaneError("timeout", message));
  }
  const code = why === "user" ? "cancelled" : "gateway_stopping";
  return { status: "cancelled", result: null, error: { code, message: new BackplaneError(code).message } };
}

/** A call whose process died under it: how, by whom, and its last words. */
export function crashed(worker: Worker, answer: Answer): Answer {
  const { exit, killReason } = worker.process;
  if (killReason !== null) {
    const message = `The plugin's process was stopped while this call ran: ${killReason}.`;
    return failedAnswer(new BackplaneError("crashed", message, { details: { reason: killReason } }));
  }
  if (exit === null) return answer;
  const words = lastWords(worker.process.stderr.since(0, 4_096).toString("utf8"));
  const message = `The plugin ${ended(exit)}.${words === null ? "" : ` Its last words on stderr: ${words}`}`;
  return failedAnswer(
    new BackplaneError("crashed", message, { details: { exit_code: exit.code, signal: exit.signal } }),
  );
}

/** A limit that the plugin ran into is named, also where time ran out first. */
export function withLimit({ process }: Worker, answer: Answer): Answer {
  const limit = limitMet(process.death);
  if (limit === null || answer.error === null || answer.error.details?.cause !== undefined) return answer;
  const { error } = answer;
  const message = `${error.message} ${limit.message}`;
  return { ...answer, error: { ...error, message, details: { ...error.details, cause: limit.cause } } };
}
