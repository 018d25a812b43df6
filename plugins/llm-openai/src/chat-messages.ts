/**
 * Converts the conversation into chat messages. The kernel SDK has already placed every result after its
 * call.
 */
import { contentPieces, type GenerateRequest, textOf } from "@backplane/sdk/kernel";
import type { OpenAI } from "openai";

type Message = GenerateRequest["history"][number];

export function chatMessages(
  system: string,
  history: readonly Message[],
): OpenAI.ChatCompletionMessageParam[] {
  const messages = history.map(chatMessage);
  return system === "" ? messages : [{ role: "system", content: system }, ...messages];
}

function chatMessage(message: Message): OpenAI.ChatCompletionMessageParam {
  switch (message.role) {
    case "user":
      return { role: "user", content: userContent(message) };
    case "tool":
      return { role: "tool", tool_call_id: message.tool_call_id, content: toolMessageText(message) };
    case "assistant": {
      const content = textOf(message.content);
      if (!message.tool_calls?.length) return { role: "assistant", content };
      const tool_calls = message.tool_calls.map(({ id, name, args }) => ({
        id,
        type: "function" as const,
        function: { name, arguments: JSON.stringify(args) },
      }));
      return { role: "assistant", content: content === "" ? null : content, tool_calls };
    }
  }
}

/** Results are text in both of OpenAI's APIs, so an image in a result is mentioned in the text. */
export function toolMessageText({ content }: Extract<Message, { role: "tool" }>): string {
  return contentPieces(content)
    .map((piece) => (piece.type === "text" ? piece.text : "[an image, not shown]"))
    .join("\n");
}

/** Uses a plain string if possible, because not every server reads lists of parts. */
function userContent({ content, attachments }: Extract<Message, { role: "user" }>) {
  const pieces = contentPieces(content, attachments);
  if (pieces.every((piece) => piece.type === "text")) return pieces.map(({ text }) => text).join("\n");
  return pieces.map((piece) =>
    piece.type === "text"
      ? { type: "text" as const, text: piece.text }
      : { type: "image_url" as const, image_url: { url: piece.url } },
  );
}
