/** Converts between the parts of OpenCode's messages and the blocks of a conversation. */
import type { Block } from "@backplane/sdk";

/** A part of `message.part.updated`. */
export interface MessagePart {
  type: string;
  id: string;
  sessionID: string;
  text?: string;
  time?: { start: number; end?: number };
  tool?: string;
  callID?: string;
  state?: { status: string; input?: Record<string, unknown>; output?: string; error?: string };
}

/**
 * The name of the gateway in the settings of OpenCode: as a provider of models and as an MCP server. OpenCode puts it
 * and an underscore before the names of the server's tools.
 */
export const GATEWAY_NAME = "backplane";

/** Results are shown to models again, so they are bounded. */
const RESULT_CHARS = 20_000;

/** The blocks of a part; null while OpenCode still works on it. */
export function blocksOf(part: MessagePart): Block[] | null {
  const { type, text = "", time, state } = part;
  if (type === "text" || type === "reasoning") {
    // The parts of a user's message have no `time`.
    if (time === undefined) return [];
    if (time.end === undefined) return null;
    const kind = type === "text" ? "response" : "thinking";
    return text === "" ? [] : [{ kind, content: [{ type: "text", text }] }];
  }
  if (type !== "tool") return [];
  const { status, input = {}, output = "", error = "" } = state!;
  if (status !== "completed" && status !== "error") return null;
  const tool_call_id = part.callID!;
  const is_error = status === "error";
  const result = (is_error ? error : output).slice(-RESULT_CHARS);
  return [
    {
      kind: "tool_call",
      content: [],
      tool_call_id,
      name: withoutServerPrefix(part.tool!),
      input: input as NonNullable<Block["input"]>,
    },
    { kind: "tool_result", content: [{ type: "text", text: result }], tool_call_id, is_error },
  ];
}

/** Other harnesses call a tool of the gateway by its own name. */
function withoutServerPrefix(tool: string): string {
  return tool.startsWith(`${GATEWAY_NAME}_`) ? tool.slice(GATEWAY_NAME.length + 1) : tool;
}

/** The conversation as text, because OpenCode accepts only user messages. */
export function describeHistory(blocks: readonly Block[]): string {
  return ["This conversation took place before. Continue it.", ...blocks.flatMap(describeBlock)].join("\n\n");
}

function describeBlock(block: Block): string[] {
  const { kind, name = "", input = {}, is_error } = block;
  const content = plainText(block);
  switch (kind) {
    case "input":
      return [`User: ${content}`];
    case "system":
      return [`System: ${content}`];
    case "response":
      return [`Assistant: ${content}`];
    case "thinking":
      return [];
    case "tool_call":
      return [`Assistant called ${name}: ${JSON.stringify(input)}`];
    case "tool_result":
      return [`${is_error === true ? "Error" : "Result"}: ${content}`];
  }
}

export function plainText({ content, structured_output }: Block): string {
  const texts = content.flatMap(describePart);
  return texts.length === 0 && structured_output !== undefined
    ? JSON.stringify(structured_output)
    : texts.join("\n");
}

/** The model has to know of an attached file even though only its name can be sent. */
function describePart({ type, text, name, resource, attachment }: Block["content"][number]): string[] {
  if (typeof text === "string") return [text];
  const file = (resource ?? {}) as { uri?: unknown; text?: unknown };
  if (typeof file.text === "string") return [file.text];
  if (attachment === undefined) return [];
  const label = [name, file.uri].find((value) => typeof value === "string") ?? "without a name";
  return [`[attached ${type}: ${label}]`];
}
