/**
 * Converts a message's content for vendors into text and images. Content is any JSON (a string, a list of
 * blocks, a value), and an attachment is an image if it has a `url` or base64 `data`; any other attachment is
 * described to the model as text.
 */
import type { Json, JsonObject } from "@backplane/contract";

export type ContentPiece =
  | { type: "text"; text: string }
  /** `url` may be a `data:` URL; `media_type` and `data` are set for base64. */
  | { type: "image"; url: string; media_type?: string; data?: string };

export function textOf(content: Json): string {
  return contentPieces(content)
    .flatMap((piece) => (piece.type === "text" ? [piece.text] : []))
    .join("\n");
}

export function contentPieces(content: Json, attachments: readonly JsonObject[] = []): ContentPiece[] {
  const pieces = Array.isArray(content) ? content.map(toPiece) : [toPiece(content)];
  for (const attachment of attachments) pieces.push(imageOf(attachment) ?? describe(attachment));
  return pieces.filter((piece) => piece.type === "image" || piece.text !== "");
}

function toPiece(value: Json): ContentPiece {
  if (value === null) return { type: "text", text: "" };
  if (typeof value === "string") return { type: "text", text: value };
  if (typeof value === "object" && !Array.isArray(value)) {
    if (value.type === "text" && typeof value.text === "string") return { type: "text", text: value.text };
    if (value.type === "image" || value.type === "image_url") {
      const image = imageOf(value);
      if (image !== null) return image;
    }
  }
  return { type: "text", text: JSON.stringify(value) };
}

function imageOf(block: JsonObject): ContentPiece | null {
  const type = mediaType(block);
  if (type !== undefined && !type.startsWith("image/")) return null;
  if (type === undefined && typeof block.type === "string" && !block.type.startsWith("image")) return null;
  const { image_url } = block;
  const nested = typeof image_url === "object" && image_url !== null && !Array.isArray(image_url);
  const url = nested ? image_url.url : (image_url ?? block.url);
  if (typeof url === "string") return fromUrl(url);
  if (typeof block.data !== "string" || block.data === "") return null;
  if (block.data.startsWith("data:")) return fromUrl(block.data);
  const media_type = type ?? "image/png";
  return { type: "image", url: `data:${media_type};base64,${block.data}`, media_type, data: block.data };
}

function fromUrl(url: string): ContentPiece | null {
  const inline = /^data:(image\/[\w.+-]+);base64,/.exec(url);
  if (inline !== null) {
    return { type: "image", url, media_type: inline[1]!, data: url.slice(inline[0].length) };
  }
  return /^https?:\/\//.test(url) ? { type: "image", url } : null;
}

function mediaType(block: JsonObject): string | undefined {
  for (const key of ["media_type", "mime_type", "content_type", "mimeType"]) {
    const value = block[key];
    if (typeof value === "string") return value;
  }
  return undefined;
}

function describe(attachment: JsonObject): ContentPiece {
  const name = typeof attachment.name === "string" ? attachment.name : "unnamed";
  if (typeof attachment.text === "string") {
    return { type: "text", text: `Attachment ${name}:\n${attachment.text}` };
  }
  return {
    type: "text",
    text: `[Attachment ${name} (${mediaType(attachment) ?? "unknown type"}), not shown]`,
  };
}
