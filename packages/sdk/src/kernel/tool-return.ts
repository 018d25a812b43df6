/**
 * The return value of a kernel tool: a brief for logs and status panes, and a block for clients that show the
 * result.
 */
import {
  type ContentBlock,
  type DisplayBlock,
  type Json,
  TOOL_BRIEF_LENGTH,
  type ToolError,
  type ToolErrorKind,
  type ToolOk,
} from "@backplane/contract";

/** A string is used as the display, and its first line as the brief. */
export function toolOk(result: string | ToolOkInput): ToolOk {
  if (typeof result === "string") return { ok: true, brief: toBrief(result), display: textBlock(result) };
  const { brief, display, content } = result;
  return {
    ok: true,
    brief: toBrief(brief),
    display: toBlock(display),
    ...(content === undefined ? {} : { content }),
  };
}

interface ToolOkInput {
  brief: string;
  display: string | DisplayBlock;
  /** The content that the model and MCP clients receive instead of the display, such as images. */
  content?: ContentBlock[];
}

/** Without a display the whole brief is shown, at any length. */
export function toolError(kind: ToolErrorKind, brief: string, display?: string | DisplayBlock): ToolError {
  return { ok: false, kind, brief: toBrief(brief), display: toBlock(display ?? brief) };
}

export function textBlock(text: string): DisplayBlock {
  return { kind: "text", text };
}

export function markdownBlock(markdown: string): DisplayBlock {
  return { kind: "markdown", markdown };
}

export function jsonBlock(data: Json): DisplayBlock {
  return { kind: "json", data };
}

function toBlock(display: string | DisplayBlock): DisplayBlock {
  return typeof display === "string" ? textBlock(display) : display;
}

/** One line of at most 80 characters, truncated with an ellipsis and never inside a surrogate pair. */
export function toBrief(text: string): string {
  const line = text.trim().split(/\r?\n/, 1)[0]!;
  if (line.length <= TOOL_BRIEF_LENGTH) return line;
  const truncated = line.slice(0, TOOL_BRIEF_LENGTH - 1);
  return `${/[\uD800-\uDBFF]$/.test(truncated) ? truncated.slice(0, -1) : truncated}…`;
}
