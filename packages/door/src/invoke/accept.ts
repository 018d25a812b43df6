/** From what the runner brings back to how the call ends: shape and output schema checked, secrets taken out. */

import {
  ERROR_CODES,
  type InvocationError,
  type Json,
  type JsonObject,
  type MaybePromise,
  mapMaybe,
  type ToolResult,
} from "@backplane/contract";
import type { RunOutcome, SchemaIssue } from "@backplane/ports";
import type { ExportPlan } from "@backplane/registry";
import type { Ending } from "../calls/ending.ts";
import type { Redactor } from "../calls/redact.ts";
import { compactorIssue, harnessIssue } from "./answer-shape.ts";

export function accept(
  plan: ExportPlan,
  outcome: RunOutcome,
  retry_count: number,
  started_at: string | null,
  redactor: Redactor | null,
): MaybePromise<Ending> {
  const ending: Ending = {
    status: outcome.status,
    result: redactor === null || outcome.result === null ? outcome.result : redactor.json(outcome.result),
    error: errorOf(outcome, redactor),
    retry_count,
    violations: outcome.violations,
    stderr_tail:
      redactor === null || outcome.stderr_tail === null
        ? outcome.stderr_tail
        : redactor.text(outcome.stderr_tail),
    started_at,
  };
  if (plan.export.kind === "hook") return ending;
  if (plan.export.kind === "compactor") return acceptObject(ending, compactorIssue);
  if (plan.export.kind === "harness") return acceptObject(ending, harnessIssue);
  const result = toolResult(ending.result);
  if (ending.status !== "succeeded") {
    // A failure keeps what it could say; a broken result of it is only counted.
    if (typeof result === "string" && ending.result !== null) ending.violations++;
    ending.result = typeof result === "string" ? null : (result as unknown as Json);
    return ending;
  }
  if (typeof result === "string") return malformed(ending, result);
  ending.result = result as unknown as Json;
  if (plan.checkOutput === null || result.is_error) return ending;
  if (result.structured_output === undefined) {
    return malformed(ending, "structured_output is missing, and the tool has an output_schema");
  }
  const checked = plan.checkOutput(result.structured_output);
  return mapMaybe(checked, (issues) =>
    issues.length === 0 ? ending : malformed(ending, describe(issues[0]!)),
  );
}

function acceptObject(ending: Ending, issueOf: (result: JsonObject) => string | null): Ending {
  const { result, status } = ending;
  if (status !== "succeeded") return ending;
  if (typeof result !== "object" || result === null || Array.isArray(result))
    return malformed(ending, "the result is not an object");
  const issue = issueOf(result);
  return issue === null ? ending : malformed(ending, issue);
}

/** The checked result with its defaults, or the rule that it breaks. */
function toolResult(value: Json | null): ToolResult | string {
  if (typeof value !== "object" || value === null || Array.isArray(value))
    return "the result is not an object";
  const {
    content = [],
    structured_output,
    is_error = false,
    retryable = false,
    status,
    yield_to_user,
  } = value;
  if (!Array.isArray(content)) return "content is not a list";
  for (const block of content)
    if (!isBlock(block)) return "content holds something other than blocks with a type";
  if (typeof is_error !== "boolean") return "is_error is not a boolean";
  if (typeof retryable !== "boolean") return "retryable is not a boolean";
  const result: ToolResult = { content: content as ToolResult["content"], is_error, retryable };
  if (structured_output !== undefined) result.structured_output = structured_output;
  if (status !== undefined) {
    if (typeof status !== "string") return "status is not a string";
    result.status = status;
  }
  if (yield_to_user !== undefined) {
    if (typeof yield_to_user !== "boolean") return "yield_to_user is not a boolean";
    result.yield_to_user = yield_to_user;
  }
  return result;
}

function isBlock(block: Json): boolean {
  if (typeof block !== "object" || block === null || Array.isArray(block)) return false;
  return typeof block.type === "string" && block.type !== "";
}

function malformed(ending: Ending, rule: string): Ending {
  const error = { code: "malformed_response", message: `the plugin's answer is not usable: ${rule}` };
  return { ...ending, status: "failed", result: null, error, violations: ending.violations + 1 };
}

function describe(issue: SchemaIssue): string {
  return `structured_output${issue.path} ${issue.message}`;
}

const ERROR_OF_STATUS = {
  failed: "plugin_failed",
  retryable_failure: "plugin_retryable",
  cancelled: "cancelled",
} as const;

/** Every end but success names a code. */
function errorOf(outcome: RunOutcome, redactor: Redactor | null): InvocationError | null {
  const { error, status } = outcome;
  if (error === null) {
    if (status === "succeeded") return null;
    const code = ERROR_OF_STATUS[status];
    return { code, message: ERROR_CODES[code].what };
  }
  if (redactor === null) return error;
  const clean: InvocationError = { code: error.code, message: redactor.text(error.message) };
  if (error.details !== undefined) clean.details = redactor.json(error.details as JsonObject);
  return clean;
}
