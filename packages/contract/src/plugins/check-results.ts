/**
 * The rules for the result of a tool, compactor or harness, whatever its protocol. The door applies them to every call,
 * and the conformance suite applies them to the calls that it makes.
 */
import type { ToolResult } from "../schema/invocation.ts";
import { isObject, type Json, type JsonObject } from "../values/json.ts";
import { BLOCK_KINDS } from "../vocabulary/vocabulary.ts";

/** The result with its defaults, or the rule that it breaks. */
export function parseToolResult(value: Json | null): ToolResult | string {
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
      return "content contains something other than objects with a type";
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

/** The rule that the result of a compactor breaks; null if there is none. */
export function findCompactorIssue(result: JsonObject): string | null {
  const { seed_blocks = [], diagnostics } = result;
  if (!Array.isArray(seed_blocks)) return "seed_blocks is not a list";
  for (const [index, block] of seed_blocks.entries()) {
    const issue = findSeedBlockIssue(block);
    if (issue !== null) return `seed_blocks/${index} ${issue}`;
  }
  const summary = findSummaryIssue(result);
  if (summary !== null) return summary;
  if (diagnostics !== undefined && !isObject(diagnostics)) return "diagnostics is not an object";
  // A new chain without either would be an empty conversation.
  if (seed_blocks.length === 0 && summaryTextOf(result).trim() === "")
    return "the result has neither seed_blocks nor a summary text";
  return null;
}

/** The rule that the result of a harness breaks; null if there is none. */
export function findHarnessIssue(result: JsonObject): string | null {
  const { checkpoint, artifacts } = result;
  if (checkpoint !== undefined) {
    if (!isObject(checkpoint)) return "checkpoint is not an object";
    if (!isText(checkpoint.kind)) return "checkpoint/kind is missing";
    if (checkpoint.data === undefined) return "checkpoint/data is missing";
  }
  if (artifacts !== undefined && !(Array.isArray(artifacts) && artifacts.every(isObject)))
    return "artifacts is not a list of objects";
  return findSummaryIssue(result);
}

function findSummaryIssue({ summary }: JsonObject): string | null {
  if (summary === undefined) return null;
  if (!isObject(summary)) return "summary is not an object";
  return typeof summary.text === "string" ? null : "summary/text is not a string";
}

function summaryTextOf({ summary }: JsonObject): string {
  return isObject(summary) && typeof summary.text === "string" ? summary.text : "";
}

const KINDS: ReadonlySet<Json | undefined> = new Set(BLOCK_KINDS);

function findSeedBlockIssue(block: Json): string | null {
  if (!isObject(block)) return "is not an object";
  const { kind, content, tool_call_id, name, is_error, from_entries = [] } = block;
  if (!KINDS.has(kind))
    return `has the kind ${JSON.stringify(kind ?? null)}, not one of ${BLOCK_KINDS.join(", ")}`;
  const needs_call_id = kind === "tool_call" || kind === "tool_result";
  if (needs_call_id && !isText(tool_call_id)) return "has no tool_call_id";
  if (kind === "tool_call" && !isText(name)) return "has no name";
  if (is_error !== undefined && typeof is_error !== "boolean") return "has an is_error that is not a boolean";
  if (!Array.isArray(from_entries) || !from_entries.every((id) => Number.isSafeInteger(id)))
    return "has from_entries that are not entry ids";
  const content_is_optional = kind === "tool_call" || block.structured_output !== undefined;
  if (content === undefined) return content_is_optional ? null : "has no content";
  if (!Array.isArray(content)) return "has content that is not a list";
  return content.every((part) => isObject(part) && isText(part.type))
    ? null
    : "has content other than objects with a type";
}

function isText(value: Json | undefined): boolean {
  return typeof value === "string" && value !== "";
}
