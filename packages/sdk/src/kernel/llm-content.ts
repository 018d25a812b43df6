/**
 * Converts a message's content for vendors into text and images. Content is any JSON (a string, a list of
 * blocks, a value), and an attachment is an image if it has a `url` or base64 `data`. Everything that vendors do not
 * take (audio, files, images in other formats) is described to the model as text, never dropped.
 */
import {
  type ContentBlock,
  describeContent,
  inlineDataOf,
  isObject,
  type Json,
  type JsonObject,
  mimeTypeIn,
  normalizeContent,
} from "@backplane/contract";

export type ContentPiece =
  | { type: "text"; text: string }
  /** `url` may be a `data:` URL; `media_type` and `data` are set for base64. */
  | { type: "image"; url: string; media_type?: string; data?: string };

export function textOf(content: Json): string {
  return contentPieces(content).map(pieceText).join("\n");
}

/** The piece as text, for a place where a vendor takes only text. */
export function pieceText(piece: ContentPiece): string {
  return piece.type === "text" ? piece.text : `[image: ${piece.media_type ?? piece.url}]`;
}

export function contentPieces(content: Json, attachments: readonly JsonObject[] = []): ContentPiece[] {
  const pieces = Array.isArray(content) ? content.map(toPiece) : [toPiece(content)];
  for (const attachment of attachments) pieces.push(imageOf(attachment) ?? describe(attachment));
  return pieces.filter((piece) => piece.type === "image" || piece.text !== "");
}

function toPiece(value: Json): ContentPiece {
  if (value === null) return { type: "text", text: "" };
  if (typeof value === "string") return { type: "text", text: value };
  if (isObject(value) && typeof value.type === "string") {
    const block = value as ContentBlock;
    return imageOf(block) ?? { type: "text", text: describeContent(normalizeContent(block)) };
  }
  return { type: "text", text: JSON.stringify(value) };
}

function imageOf(block: JsonObject): ContentPiece | null {
  const typed = typeof block.type === "string" ? block.type : null;
  const declared = mimeTypeIn(block);
  if (typed !== null && !IMAGE_BLOCKS.has(typed)) return imageInResource(block as ContentBlock);
  if (typed === null && declared !== undefined && !declared.startsWith("image/")) return null;
  const { data, source, uri } = normalizeContent({ ...block, type: typed ?? "image" });
  if (typeof data === "string") return fromBase64(data);
  const url = isObject(source) ? source.url : (uri ?? block.url);
  if (typeof url !== "string") return null;
  const inline = /^data:image\/[\w.+-]+;base64,/.exec(url);
  if (inline !== null) return fromBase64(url.slice(inline[0].length));
  return /^https?:\/\//.test(url) ? { type: "image", url } : null;
}

const IMAGE_BLOCKS: ReadonlySet<string> = new Set(["image", "image_url", "input_image"]);

function imageInResource(block: ContentBlock): ContentPiece | null {
  const data = block.type === "resource" ? inlineDataOf(block) : null;
  return data?.base64 === undefined || !data.mimeType.startsWith("image/") ? null : fromBase64(data.base64);
}

/** The image formats that every vendor reads, with the first characters of their base64. */
const FORMATS: readonly [media_type: string, start: string][] = [
  ["image/png", "iVBORw0KGgo"],
  ["image/jpeg", "/9j/"],
  ["image/gif", "R0lGOD"],
  ["image/webp", "UklGR"],
];

/**
 * The format is read from the data: vendors refuse a whole conversation for one image that is not what it claims to be.
 */
function fromBase64(data: string): ContentPiece | null {
  const media_type = FORMATS.find(([, start]) => data.startsWith(start))?.[0];
  if (media_type === undefined || !/^[A-Za-z0-9+/]+={0,2}$/.test(data)) return null;
  return { type: "image", url: `data:${media_type};base64,${data}`, media_type, data };
}

function describe(attachment: JsonObject): ContentPiece {
  const name = typeof attachment.name === "string" ? attachment.name : "unnamed";
  if (typeof attachment.text === "string") {
    return { type: "text", text: `Attachment ${name}:\n${attachment.text}` };
  }
  return {
    type: "text",
    text: `[Attachment ${name} (${mimeTypeIn(attachment) ?? "unknown type"}), not shown]`,
  };
}
