/**
 * Turns the runner's outcome into the ending of the call: checks the shape and the output schema of the result and
 * removes secrets. A compactor and a harness change a conversation, so a result that breaks any rule fails the call
 * instead of being used in part.
 */

import {
  findCompactorIssue,
  ERROR_CODES,
  findHarnessIssue,
  type InvocationError,
  isObject,
  type Json,
  type JsonObject,
  type MaybePromise,
  mapMaybe,
  parseToolResult,
} from "@backplane/contract";
import type { RunOutcome, SchemaIssue } from "@backplane/ports";
import type { ExportPlan } from "@backplane/registry";
import type { CallEnding } from "../calls/ending.ts";
import type { Redactor } from "../calls/redact.ts";

/** Returns a promise only if the result is validated against a schema in another thread (benchmark http.invoke). */
export function accept(
  plan: ExportPlan,
  outcome: RunOutcome,
  retry_count: number,
  started_at: string | null,
  redactor: Redactor | null,
): MaybePromise<CallEnding> {
  const ending: CallEnding = {
    status: outcome.status,
    result: redactor === null || outcome.result === null ? outcome.result : redactor.json(outcome.result),
    error: toInvocationError(outcome, redactor),
    retry_count,
    violations: outcome.violations,
    stderr_tail:
      redactor === null || outcome.stderr_tail === null
        ? outcome.stderr_tail
        : redactor.text(outcome.stderr_tail),
    started_at,
  };
  if (plan.export.kind === "hook") return ending;
  if (plan.export.kind === "compactor") return acceptObject(ending, findCompactorIssue);
  if (plan.export.kind === "harness") return acceptObject(ending, findHarnessIssue);
  const result = parseToolResult(ending.result);
  if (ending.status !== "succeeded") {
    // A failed call keeps a well-formed result; a malformed one only counts as a violation.
    if (typeof result === "string" && ending.result !== null) ending.violations++;
    ending.result = typeof result === "string" ? null : (result as unknown as Json);
    return ending;
  }
  if (typeof result === "string") return endAsMalformed(ending, result);
  ending.result = result as unknown as Json;
  if (plan.checkOutput === null || result.is_error) return ending;
  if (result.structured_output === undefined) {
    return endAsMalformed(ending, "structured_output is missing, and the tool has an output_schema");
  }
  const checked = plan.checkOutput(result.structured_output);
  return mapMaybe(checked, (issues) =>
    issues.length === 0 ? ending : endAsMalformed(ending, describeIssue(issues[0]!)),
  );
}

function acceptObject(ending: CallEnding, findIssue: (result: JsonObject) => string | null): CallEnding {
  const { result, status } = ending;
  if (status !== "succeeded") return ending;
  if (!isObject(result)) return endAsMalformed(ending, "the result is not an object");
  const issue = findIssue(result);
  return issue === null ? ending : endAsMalformed(ending, issue);
}

function endAsMalformed(ending: CallEnding, issue: string): CallEnding {
  const error = { code: "malformed_response", message: `The plugin's response is invalid: ${issue}.` };
  return { ...ending, status: "failed", result: null, error, violations: ending.violations + 1 };
}

function describeIssue(issue: SchemaIssue): string {
  return `structured_output${issue.path} ${issue.message}`;
}

const ERROR_CODE_BY_STATUS = {
  failed: "plugin_failed",
  retryable_failure: "plugin_retryable",
  cancelled: "cancelled",
} as const;

/** Every ending but success has an error code. */
function toInvocationError(outcome: RunOutcome, redactor: Redactor | null): InvocationError | null {
  const { error, status } = outcome;
  if (error === null) {
    if (status === "succeeded") return null;
    const code = ERROR_CODE_BY_STATUS[status];
    return { code, message: ERROR_CODES[code].description };
  }
  if (redactor === null) return error;
  const clean: InvocationError = { code: error.code, message: redactor.text(error.message) };
  if (error.details !== undefined) clean.details = redactor.json(error.details as JsonObject);
  return clean;
}
