/**
 * Turns the runner's outcome into the ending of the call: checks the shape and the output schema of the result and
 * removes secrets. A compactor and a harness change a conversation, so a result that breaks any rule fails the call
 * instead of being used in part.
 */

import {
  BLOCK_KINDS,
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
import type { CallEnding } from "../calls/ending.ts";
import type { Redactor } from "../calls/redact.ts";

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
  if (plan.export.kind === "compactor") return acceptObject(ending, compactorIssue);
  if (plan.export.kind === "harness") return acceptObject(ending, harnessIssue);
  const result = parseToolResult(ending.result);
  if (ending.status !== "succeeded") {
    // A failed call keeps a well-formed result; a malformed one only counts as a violation.
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

function acceptObject(ending: CallEnding, findIssue: (result: JsonObject) => string | null): CallEnding {
  const { result, status } = ending;
  if (status !== "succeeded") return ending;
  if (!isObject(result)) return malformed(ending, "the result is not an object");
  const issue = findIssue(result);
  return issue === null ? ending : malformed(ending, issue);
}

/** The result with its defaults, or the rule that it breaks. */
function parseToolResult(value: Json | null): ToolResult | string {
  if (!isObject(value)) return "the result is not an object";
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
    if (!isObject(block) || !isText(block.type))
      return "content holds something other than blocks with a type";
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

function compactorIssue(result: JsonObject): string | null {
  const { seed_blocks = [], diagnostics } = result;
  if (!Array.isArray(seed_blocks)) return "seed_blocks is not a list";
  for (const [index, block] of seed_blocks.entries()) {
    const issue = seedBlockIssue(block);
    if (issue !== null) return `seed_blocks/${index} ${issue}`;
  }
  const summary = summaryIssue(result);
  if (summary !== null) return summary;
  if (diagnostics !== undefined && !isObject(diagnostics)) return "diagnostics is not an object";
  // A new chain without either would be an empty conversation.
  if (seed_blocks.length === 0 && summaryTextOf(result).trim() === "")
    return "the result has neither seed_blocks nor a summary text";
  return null;
}

function harnessIssue(result: JsonObject): string | null {
  const { checkpoint, artifacts } = result;
  if (checkpoint !== undefined) {
    if (!isObject(checkpoint)) return "checkpoint is not an object";
    if (!isText(checkpoint.kind)) return "checkpoint/kind is missing";
    if (checkpoint.data === undefined) return "checkpoint/data is missing";
  }
  if (artifacts !== undefined && !(Array.isArray(artifacts) && artifacts.every(isObject)))
    return "artifacts is not a list of objects";
  return summaryIssue(result);
}

function summaryIssue({ summary }: JsonObject): string | null {
  if (summary === undefined) return null;
  if (!isObject(summary)) return "summary is not an object";
  return typeof summary.text === "string" ? null : "summary/text is not a string";
}

function summaryTextOf({ summary }: JsonObject): string {
  return isObject(summary) && typeof summary.text === "string" ? summary.text : "";
}

const KINDS: ReadonlySet<Json | undefined> = new Set(BLOCK_KINDS);

function seedBlockIssue(block: Json): string | null {
  if (!isObject(block)) return "is not an object";
  const { kind, content, tool_call_id, name, is_error, from_entries = [] } = block;
  if (!KINDS.has(kind))
    return `has the kind ${JSON.stringify(kind ?? null)}, not one of ${BLOCK_KINDS.join(", ")}`;
  const needsCallId = kind === "tool_call" || kind === "tool_result";
  if (needsCallId && !isText(tool_call_id)) return "has no tool_call_id";
  if (kind === "tool_call" && !isText(name)) return "has no name";
  if (is_error !== undefined && typeof is_error !== "boolean") return "has an is_error that is not a boolean";
  if (!Array.isArray(from_entries) || !from_entries.every((id) => Number.isSafeInteger(id)))
    return "has from_entries that are not entry ids";
  const contentIsOptional = kind === "tool_call" || block.structured_output !== undefined;
  if (content === undefined) return contentIsOptional ? null : "has no content";
  if (!Array.isArray(content)) return "has content that is not a list";
  return content.every((part) => isObject(part) && isText(part.type))
    ? null
    : "has content other than objects with a type";
}

function isText(value: Json | undefined): boolean {
  return typeof value === "string" && value !== "";
}

function isObject(value: Json | undefined): value is JsonObject {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

function malformed(ending: CallEnding, rule: string): CallEnding {
  const error = { code: "malformed_response", message: `The plugin's response is invalid: ${rule}.` };
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

/** Every ending but success has an error code. */
function toInvocationError(outcome: RunOutcome, redactor: Redactor | null): InvocationError | null {
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
