/**
 * The shape of a compactor's and a harness's result. Both change a conversation, so a result that does not say what it
 * must say fails the call instead of being read as far as it goes.
 */
import { BLOCK_KINDS, type Json, type JsonObject } from "@backplane/contract";

/** The broken rule, or null when the result may be used. */
export function compactorIssue(result: JsonObject): string | null {
  const { seed_blocks = [], diagnostics } = result;
  if (!Array.isArray(seed_blocks)) return "seed_blocks is not a list";
  for (const [index, block] of seed_blocks.entries()) {
    const issue = blockIssue(block);
    if (issue !== null) return `seed_blocks/${index} ${issue}`;
  }
  const summary = summaryIssue(result);
  if (summary !== null) return summary;
  if (diagnostics !== undefined && !isObject(diagnostics)) return "diagnostics is not an object";
  // A new chain without either would be an empty conversation.
  if (seed_blocks.length === 0 && textOf(result).trim() === "")
    return "the result has neither seed_blocks nor a summary text";
  return null;
}

export function harnessIssue(result: JsonObject): string | null {
  const { checkpoint, artifacts } = result;
  if (checkpoint !== undefined) {
    if (!isObject(checkpoint)) return "checkpoint is not an object";
    if (typeof checkpoint.kind !== "string" || checkpoint.kind === "") return "checkpoint/kind is missing";
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

function textOf({ summary }: JsonObject): string {
  return isObject(summary) && typeof summary.text === "string" ? summary.text : "";
}

const KINDS: ReadonlySet<Json | undefined> = new Set(BLOCK_KINDS);

function blockIssue(block: Json): string | null {
  if (!isObject(block)) return "is not an object";
  const { kind, content, tool_call_id, name, is_error } = block;
  if (!KINDS.has(kind))
    return `has the kind ${JSON.stringify(kind ?? null)}, not one of ${BLOCK_KINDS.join(", ")}`;
  const calls = kind === "tool_call" || kind === "tool_result";
  if (calls && !isText(tool_call_id)) return "has no tool_call_id";
  if (kind === "tool_call" && !isText(name)) return "has no name";
  if (is_error !== undefined && typeof is_error !== "boolean") return "has an is_error that is not a boolean";
  const mayLack = kind === "tool_call" || block.structured_output !== undefined;
  if (content === undefined) return mayLack ? null : "has no content";
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
