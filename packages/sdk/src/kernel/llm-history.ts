/**
 * Converts a request's messages into a form that vendors accept. Leading system messages become the system
 * prompt. Every tool call is directly followed by its result, because vendors refuse a whole conversation for
 * one call without a result: a missing result (of an interrupted turn) is replaced by a placeholder, and a
 * result without a call is dropped.
 */
import type { ChatMessage, GenerateRequest } from "@backplane/contract";
import { textOf } from "./llm-content.ts";

type HistoryMessage = GenerateRequest["history"][number];
type ToolMessage = Extract<ChatMessage, { role: "tool" }>;

const NO_RESULT = "No result was recorded for this call.";

export function splitMessages(messages: readonly ChatMessage[]): {
  system: string;
  history: HistoryMessage[];
} {
  const first = messages.findIndex((message) => message.role !== "system");
  const head = first < 0 ? messages : messages.slice(0, first);
  const system = head
    .map((message) => textOf(message.content))
    .filter((text) => text !== "")
    .join("\n\n");
  return { system, history: first < 0 ? [] : pairCalls(messages.slice(first).map(withoutSystem)) };
}

/**
 * A later system message keeps its position, with the role that every vendor accepts in the middle of a
 * conversation.
 */
function withoutSystem(message: ChatMessage): HistoryMessage {
  if (message.role !== "system") return message;
  return { role: "user", content: `<system>\n${textOf(message.content)}\n</system>` };
}

function pairCalls(messages: readonly HistoryMessage[]): HistoryMessage[] {
  const results = new Map<string, ToolMessage[]>();
  for (const message of messages) {
    if (message.role !== "tool") continue;
    const results_of_call = results.get(message.tool_call_id);
    if (results_of_call === undefined) results.set(message.tool_call_id, [message]);
    else results_of_call.push(message);
  }
  return messages.flatMap((message): HistoryMessage[] => {
    if (message.role === "tool") return [];
    if (message.role !== "assistant" || message.tool_calls === undefined) return [message];
    const answers = message.tool_calls.map(
      ({ id }): ToolMessage =>
        results.get(id)?.shift() ?? { role: "tool", tool_call_id: id, content: NO_RESULT, is_error: true },
    );
    return [message, ...answers];
  });
}
