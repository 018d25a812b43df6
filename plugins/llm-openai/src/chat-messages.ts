/**
 * Converts the conversation into chat messages. The kernel SDK has already placed every result after its
 * call.
 */
import {
  type ContentPiece,
  contentPieces,
  type GenerateRequest,
  pieceText,
  textOf,
} from "@backplane/sdk/kernel";
import type { OpenAI } from "openai";

type Message = GenerateRequest["history"][number];

export function chatMessages(
  system: string,
  history: readonly Message[],
): OpenAI.ChatCompletionMessageParam[] {
  const messages: OpenAI.ChatCompletionMessageParam[] = [];
  if (system !== "") messages.push({ role: "system", content: system });
  let images: Image[] = [];
  for (const message of history) {
    if (message.role !== "tool" && images.length > 0) {
      messages.push(imageMessage(images));
      images = [];
    }
    messages.push(chatMessage(message));
    if (message.role === "tool") images.push(...imagesIn(message));
  }
  if (images.length > 0) messages.push(imageMessage(images));
  return messages;
}

/** The conversation for a model that reads only text. */
export function withoutImages(history: readonly Message[]): Message[] {
  return history.map((message) => {
    if (message.role === "assistant") return message;
    const pieces = contentPieces(message.content, message.role === "user" ? message.attachments : []);
    const content = pieces.map(pieceText).join("\n");
    return message.role === "user" ? { role: "user", content } : { ...message, content };
  });
}

type Image = Extract<ContentPiece, { type: "image" }>;
type ToolMessage = Extract<Message, { role: "tool" }>;

function imagesIn({ content }: ToolMessage): Image[] {
  return contentPieces(content).filter((piece) => piece.type === "image");
}

/** Results are text in this API. Their images follow in a user message, after the last result of the step. */
function imageMessage(images: readonly Image[]): OpenAI.ChatCompletionMessageParam {
  const text = "[The images of the tool results above, in their order.]";
  return { role: "user", content: [{ type: "text", text }, ...images.map(imagePart)] };
}

function imagePart({ url }: Image) {
  return { type: "image_url" as const, image_url: { url } };
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

function toolMessageText({ content }: ToolMessage): string {
  return contentPieces(content)
    .map((piece) => (piece.type === "text" ? piece.text : `${pieceText(piece)} (shown below)`))
    .join("\n");
}

/** Uses a plain string if possible, because not every server reads lists of parts. */
function userContent({ content, attachments }: Extract<Message, { role: "user" }>) {
  const pieces = contentPieces(content, attachments);
  if (pieces.every((piece) => piece.type === "text")) return pieces.map(({ text }) => text).join("\n");
  return pieces.map((piece) =>
    piece.type === "text" ? { type: "text" as const, text: piece.text } : imagePart(piece),
  );
}
