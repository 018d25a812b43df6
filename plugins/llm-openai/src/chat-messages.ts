/**
 * Converts the conversation into chat messages. The SDK has already placed every result after its call.
 */
import {
  type AcceptedMedia,
  contentPieces,
  type GenerateRequest,
  type MediaPiece,
  mediaPieces,
  pieceText,
  textOf,
} from "@backplane/sdk/kernel";
import type { OpenAI } from "openai";

type Message = GenerateRequest["history"][number];

export function toChatMessages(
  system: string,
  history: readonly Message[],
  accepted: AcceptedMedia,
): OpenAI.ChatCompletionMessageParam[] {
  const messages: OpenAI.ChatCompletionMessageParam[] = [];
  if (system !== "") messages.push({ role: "system", content: system });
  let media: Media[] = [];
  for (const message of history) {
    if (isEmptyAnswer(message)) continue;
    if (message.role !== "tool" && media.length > 0) {
      messages.push(buildMediaMessage(media));
      media = [];
    }
    messages.push(toChatMessage(message, accepted));
    if (message.role === "tool") media.push(...findMedia(message, accepted));
  }
  if (media.length > 0) messages.push(buildMediaMessage(media));
  return messages;
}

/** Whether this is the empty answer of a failed turn. Some servers refuse a message without content. */
function isEmptyAnswer(message: Message): boolean {
  return message.role === "assistant" && !message.tool_calls?.length && textOf(message.content) === "";
}

/** Converts the conversation for a model that reads only text: images and other media are described in words. */
export function describeMedia(history: readonly Message[]): Message[] {
  return history.map((message) => {
    if (message.role === "assistant") return message;
    const pieces = contentPieces(message.content, message.role === "user" ? message.attachments : []);
    const content = pieces.map(pieceText).join("\n");
    return message.role === "user" ? { role: "user", content } : { ...message, content };
  });
}

type Media = Exclude<MediaPiece, { type: "text" }>;
type ToolMessage = Extract<Message, { role: "tool" }>;

function findMedia({ content }: ToolMessage, accepted: AcceptedMedia): Media[] {
  return mediaPieces(content, [], accepted).filter((piece) => piece.type !== "text");
}

/** Results are text in this API. Their media follow in a user message, after the last result of the step. */
function buildMediaMessage(media: readonly Media[]): OpenAI.ChatCompletionMessageParam {
  const media_kinds = media.every(({ type }) => type === "image") ? "images" : "images, documents and audio";
  const text = `[The ${media_kinds} of the tool results above, in their order.]`;
  return { role: "user", content: [{ type: "text", text }, ...media.map(toMediaPart)] };
}

function toMediaPart(piece: Media): OpenAI.ChatCompletionContentPart {
  switch (piece.type) {
    case "image":
      return { type: "image_url", image_url: { url: piece.url } };
    case "document":
      return { type: "file", file: { filename: piece.name, file_data: toDataUrl(piece) } };
    case "audio":
      return { type: "input_audio", input_audio: { data: piece.data, format: piece.format } };
  }
}

export function toDataUrl({ media_type, data }: Extract<Media, { type: "document" }>): string {
  return `data:${media_type};base64,${data}`;
}

function toChatMessage(message: Message, accepted: AcceptedMedia): OpenAI.ChatCompletionMessageParam {
  switch (message.role) {
    case "user":
      return { role: "user", content: toUserContent(message, accepted) };
    case "tool":
      return {
        role: "tool",
        tool_call_id: message.tool_call_id,
        content: toToolMessageText(message, accepted),
      };
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

function toToolMessageText({ content }: ToolMessage, accepted: AcceptedMedia): string {
  return mediaPieces(content, [], accepted)
    .map((piece) => (piece.type === "text" ? piece.text : `${pieceText(piece)} (shown below)`))
    .join("\n");
}

/** Uses a plain string if possible, because not every server reads lists of parts. */
function toUserContent(
  { content, attachments }: Extract<Message, { role: "user" }>,
  accepted: AcceptedMedia,
) {
  const pieces = mediaPieces(content, attachments ?? [], accepted);
  if (pieces.every((piece) => piece.type === "text")) return pieces.map(({ text }) => text).join("\n");
  return pieces.map((piece) =>
    piece.type === "text" ? { type: "text" as const, text: piece.text } : toMediaPart(piece),
  );
}
