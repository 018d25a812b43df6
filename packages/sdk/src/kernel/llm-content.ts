/**
 * Converts a message's content for vendors into text and images, and into PDFs and audio for the vendors that accept
 * them. Content is any JSON (a string, a list of blocks, a value), and an attachment is an image if it has a `url` or
 * base64 `data`. Everything that a vendor does not accept is described to the model as text, never dropped.
 */
import {
  type ContentBlock,
  describeContent,
  imageTypeOf,
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

/** A piece for a vendor that accepts more than text and images. `data` is base64. */
export type MediaPiece =
  | ContentPiece
  | { type: "document"; media_type: "application/pdf"; data: string; name: string }
  | { type: "audio"; format: "wav" | "mp3"; data: string };

/** The media that a vendor accepts besides text and images. */
export type AcceptedMedia = ReadonlySet<"document" | "audio">;

export function textOf(content: Json): string {
  return contentPieces(content).map(pieceText).join("\n");
}

/** The piece as text, for a place where a vendor accepts only text. */
export function pieceText(piece: MediaPiece): string {
  switch (piece.type) {
    case "text":
      return piece.text;
    case "image":
      return `[image: ${piece.media_type ?? piece.url}]`;
    case "document":
      return `[document: ${piece.name}, ${piece.media_type}]`;
    case "audio":
      return `[audio: audio/${piece.format}]`;
  }
}

export function contentPieces(content: Json, attachments: readonly JsonObject[] = []): ContentPiece[] {
  return mediaPieces(content, attachments, new Set()) as ContentPiece[];
}

export function mediaPieces(
  content: Json,
  attachments: readonly JsonObject[],
  accepted: AcceptedMedia,
): MediaPiece[] {
  const toPiece = (value: Json): MediaPiece => {
    if (value === null) return { type: "text", text: "" };
    if (typeof value === "string") return { type: "text", text: value };
    if (isObject(value) && typeof value.type === "string") {
      const block = value as ContentBlock;
      const text = () => describeContent(normalizeContent(block));
      return imageOf(block) ?? toMediaPiece(block, accepted) ?? { type: "text", text: text() };
    }
    return { type: "text", text: JSON.stringify(value) };
  };
  const pieces = Array.isArray(content) ? content.map(toPiece) : [toPiece(content)];
  for (const attachment of attachments)
    pieces.push(imageOf(attachment) ?? toMediaPiece(attachment, accepted) ?? describeAttachment(attachment));
  return pieces.filter((piece) => piece.type !== "text" || piece.text !== "");
}

/** Null for anything that is not accepted, or whose data is not what it claims to be. */
function toMediaPiece(value: JsonObject, accepted: AcceptedMedia): MediaPiece | null {
  if (accepted.size === 0) return null;
  const block = toBlock(value);
  const data = inlineDataOf(block)?.base64;
  if (data === undefined || !BASE64.test(data)) return null;
  if (accepted.has("document") && data.startsWith(PDF_START))
    return { type: "document", media_type: "application/pdf", data, name: fileName({ ...block, ...value }) };
  const format = accepted.has("audio") ? audioFormat(data) : null;
  return format === null ? null : { type: "audio", format, data };
}

/** An attachment, or a stored file whose data was loaded, has its `data` beside its type. */
function toBlock(value: JsonObject): ContentBlock {
  const block = typeof value.type === "string" ? normalizeContent(value as ContentBlock) : null;
  if (block !== null && inlineDataOf(block) !== null) return block;
  const mimeType = mimeTypeIn(value) ?? "application/octet-stream";
  const blob = typeof value.data === "string" ? value.data.replace(/^data:[^,]*;base64,/, "") : "";
  return { type: "resource", resource: { mimeType, blob } };
}

/** Vendors show the name to the model and require one. */
function fileName({ name, filename, title, path, file, resource }: JsonObject): string {
  const inner = isObject(file) ? file.filename : null;
  const uri = isObject(resource) ? resource.uri : null;
  const declared_name = [name, filename, title, path, inner, uri].find(
    (text): text is string => typeof text === "string" && text !== "",
  );
  const last = (declared_name ?? "document.pdf").split(/[\\/]/).at(-1)!;
  return last.slice(0, 200) || "document.pdf";
}

/** The base64 of `%PDF-`. */
const PDF_START = "JVBERi0";

function audioFormat(data: string): "wav" | "mp3" | null {
  const head = Buffer.from(data.slice(0, 16), "base64").toString("latin1");
  if (head.startsWith("RIFF") && head.slice(8, 12) === "WAVE") return "wav";
  return head.startsWith("ID3") || /^\xff[\xf2\xf3\xfa\xfb]/.test(head) ? "mp3" : null;
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

const BASE64 = /^[A-Za-z0-9+/]+={0,2}$/;

/**
 * The format is read from the data: vendors refuse a whole conversation for one image that is not what it claims to be.
 */
function fromBase64(data: string): ContentPiece | null {
  const media_type = imageTypeOf(data);
  if (media_type === null || !BASE64.test(data)) return null;
  return { type: "image", url: `data:${media_type};base64,${data}`, media_type, data };
}

function describeAttachment(attachment: JsonObject): ContentPiece {
  const inner = isObject(attachment.resource) ? attachment.resource : attachment;
  const name = [attachment.name, lastPartOf(inner.uri)].find((text) => typeof text === "string") ?? "unnamed";
  if (typeof inner.text === "string") return { type: "text", text: `Attachment ${name}:\n${inner.text}` };
  return { type: "text", text: `[Attachment ${name} (${mimeTypeIn(inner) ?? "unknown type"}), not shown]` };
}

function lastPartOf(uri: Json | undefined): string | undefined {
  if (typeof uri !== "string") return undefined;
  const last = uri.split("/").at(-1)!;
  try {
    return decodeURIComponent(last);
  } catch {
    return last;
  }
}
