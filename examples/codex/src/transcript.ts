/** Converts between the items of Codex and the blocks of a conversation. */
import type { Block } from "@backplane/sdk";

/** An item of `item/started` or `item/completed`; its other fields depend on its type. */
export interface ThreadItem {
  type: string;
  id: string;
  [field: string]: unknown;
}

interface FileChange {
  path: string;
  kind: { type: string };
  diff: string;
}

/** Results are shown to models again, so they are bounded. */
const RESULT_CHARS = 20_000;

/** The blocks of an item that Codex has completed; none for items that are not part of a conversation. */
export function blocksOf(item: ThreadItem): Block[] {
  switch (item.type) {
    case "agentMessage":
      return toText(item.text) === "" ? [] : [{ kind: "response", content: textContent(toText(item.text)) }];
    case "reasoning": {
      const thought = [...toList(item.summary), ...toList(item.content)].map(toText).join("\n");
      return thought === "" ? [] : [{ kind: "thinking", content: textContent(thought) }];
    }
    case "commandExecution": {
      const { command, cwd, aggregatedOutput, exitCode, status } = item;
      const failed = status !== "completed" || exitCode !== 0;
      const output = toText(aggregatedOutput);
      const result = status === "declined" ? "The command was not allowed." : output;
      return callBlocks(item.id, "shell", { command: toText(command), cwd: toText(cwd) }, result, failed);
    }
    case "fileChange": {
      const changes = changesOf(item).map(({ path, kind, diff }) => ({ path, kind: kind.type, diff }));
      const status = toText(item.status);
      return callBlocks(
        item.id,
        "apply_patch",
        { changes },
        `The change was ${status}.`,
        status !== "completed",
      );
    }
    case "mcpToolCall": {
      const { tool, arguments: args, result, error } = item;
      const content = toList((result as { content?: unknown } | null)?.content);
      const output = content.map((part) => toText((part as { text?: unknown }).text)).join("\n");
      const failure = toText((error as { message?: unknown } | null)?.message);
      return callBlocks(item.id, toText(tool), args ?? {}, failure || output, item.status !== "completed");
    }
    default:
      return [];
  }
}

/** A call and its result, written together, so that the tape never has one without the other. */
function callBlocks(id: string, name: string, input: unknown, result: string, is_error: boolean): Block[] {
  return [
    { kind: "tool_call", content: [], tool_call_id: id, name, input: input as NonNullable<Block["input"]> },
    { kind: "tool_result", content: textContent(result.slice(-RESULT_CHARS)), tool_call_id: id, is_error },
  ];
}

export function changesOf(item: ThreadItem | undefined): FileChange[] {
  return toList(item?.changes) as FileChange[];
}

/** Items of OpenAI's Responses API, for `thread/inject_items`. */
export function itemsOf(blocks: readonly Block[]): object[] {
  const answered = new Set(listIds(blocks, "tool_result"));
  // Providers refuse a call without a result, which an interrupted turn leaves behind.
  const complete = new Set(listIds(blocks, "tool_call").filter((id) => answered.has(id)));
  return blocks
    .filter(({ tool_call_id }) => tool_call_id === undefined || complete.has(tool_call_id))
    .flatMap(itemsOfBlock);
}

function itemsOfBlock(block: Block): object[] {
  const { kind, tool_call_id: call_id, name = "", input = {} } = block;
  const content = plainText(block);
  switch (kind) {
    case "input":
      return [{ type: "message", role: "user", content: [{ type: "input_text", text: content }] }];
    case "system":
      return [{ type: "message", role: "developer", content: [{ type: "input_text", text: content }] }];
    case "response":
      return [{ type: "message", role: "assistant", content: [{ type: "output_text", text: content }] }];
    case "thinking":
      return [];
    case "tool_call":
      return [{ type: "function_call", call_id, name, arguments: JSON.stringify(input) }];
    case "tool_result":
      return [{ type: "function_call_output", call_id, output: content }];
  }
}

function listIds(blocks: readonly Block[], wanted_kind: Block["kind"]): string[] {
  return blocks.flatMap(({ kind, tool_call_id }) =>
    kind === wanted_kind && tool_call_id !== undefined ? [tool_call_id] : [],
  );
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

function textContent(content: string): Block["content"] {
  return [{ type: "text", text: content }];
}

function toText(value: unknown): string {
  return typeof value === "string" ? value : "";
}

function toList(value: unknown): unknown[] {
  return Array.isArray(value) ? value : [];
}
