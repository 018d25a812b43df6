/**
 * Converts the result of `tools/call` to a tool result. Content is kept as the server wrote it. Output over the limit
 * is truncated, with a note for the model. A result with `isError` does not fail the call, because the model must see
 * its text.
 */
import {
  type ContentBlock,
  inlineDataOf,
  isObject,
  type Json,
  type JsonObject,
  normalizeContent,
  remainingJsonBudget,
} from "@backplane/contract";
import type { PluginAnswer } from "../../ports/answer.ts";

const MESSAGE_CHARS = 4_000;
/** Estimated size of a number, boolean or null. */
const SCALAR_CHARS = 8;

export function acceptCall(result: Json, output_bytes: number): PluginAnswer {
  if (!isObject(result)) return malformed("the result of tools/call is not an object");
  const { content = [], structuredContent, isError = false } = result;
  if (!Array.isArray(content)) return malformed("content is not a list");
  for (const block of content) {
    if (!isObject(block) || typeof block.type !== "string" || block.type === "") {
      return malformed("content contains an item that is not a block with a type");
    }
  }
  if (typeof isError !== "boolean") return malformed("isError is not a boolean");
  const value: JsonObject = { content, is_error: isError };
  if (structuredContent !== undefined) value.structured_output = structuredContent;
  const counted = { ...value, content: content.map((block) => withoutData(block as ContentBlock)) };
  const fits = remainingJsonBudget(counted, output_bytes, SCALAR_CHARS) >= 0;
  return { status: "succeeded", result: fits ? value : truncateResult(value, output_bytes), error: null };
}

/** Converts a JSON-RPC error, such as one for an unknown tool, invalid arguments or an exception in the server. */
export function acceptError(error: { code: number; message: string; data?: Json }): PluginAnswer {
  const message = error.message.slice(0, MESSAGE_CHARS) || "The MCP server answered with an error.";
  const details: JsonObject = { plugin_code: String(error.code) };
  if (error.data !== undefined && remainingJsonBudget(error.data, MESSAGE_CHARS, SCALAR_CHARS) >= 0)
    details.data = error.data;
  return { status: "failed", result: null, error: { code: "plugin_failed", message, details } };
}

function malformed(rule: string): PluginAnswer {
  const message = `The MCP server sent an invalid result: ${rule}.`;
  return { status: "failed", result: null, error: { code: "malformed_response", message } };
}

/**
 * Keeps as many blocks as fit, in their order. A text block is shortened; any other block is kept whole or reported
 * as left out.
 */
function truncateResult(value: JsonObject, limit: number): JsonObject {
  const content: ContentBlock[] = [];
  const notes: string[] = [];
  let remaining = limit;
  for (const block of value.content as ContentBlock[]) {
    const remaining_after = remainingJsonBudget(withoutData(block), remaining, SCALAR_CHARS);
    if (remaining_after >= 0) {
      content.push(block);
      remaining = remaining_after;
    } else if (block.type === "text" && typeof block.text === "string") {
      const text = block.text.slice(0, Math.max(0, Math.floor(remaining / 2))).toWellFormed();
      if (text !== "") content.push({ ...block, text });
      notes.push(`a text block was truncated after ${text.length} of ${block.text.length} characters`);
      remaining = 0;
    } else {
      notes.push(`${describeBlock(block)} was left out`);
    }
  }
  const result: JsonObject = { ...value, content };
  const { structured_output } = value;
  if (structured_output !== undefined && remainingJsonBudget(structured_output, limit, SCALAR_CHARS) < 0) {
    delete result.structured_output;
    notes.push("the structured output was left out");
  }
  if (notes.length === 0) return result;
  const text = `[Output over the limit of ${limit} bytes: ${notes.slice(0, 20).join("; ")}.]`;
  content.push({ type: "text", text });
  return result;
}

/**
 * The door stores the data of images, audio and files as artifacts, so it is not part of the output that is limited
 * here.
 */
function withoutData(block: ContentBlock): ContentBlock {
  const data = normalizeContent(block);
  if (inlineDataOf(data)?.base64 === undefined) return block;
  if (!isObject(data.resource)) return { ...data, data: "" };
  return { ...data, resource: { ...data.resource, blob: "" } };
}

function describeBlock(block: JsonObject): string {
  const inner = isObject(block.resource) ? block.resource : block;
  const kind = typeof inner.mimeType === "string" ? ` (${inner.mimeType.slice(0, 80)})` : "";
  const data = inner.data ?? inner.blob ?? inner.text;
  const size = typeof data === "string" ? ` of ${data.length} characters` : "";
  return `a block of type ${(block.type as string).slice(0, 40)}${kind}${size}`;
}
