/**
 * One block of a tool result or a message. Every layer uses this shape: invocation, tape, model, watchers, MCP. The
 * field names and types are MCP's (`mimeType`, `resource_link`); `normalizeContent` converts blocks of other formats. A
 * large block holds a reference to an artifact instead. Blocks of unknown types are kept unchanged.
 */
import { isArtifact } from "./artifact.ts";
import { isObject, type Json, type JsonObject } from "./json.ts";

export interface ContentBlock extends JsonObject {
  /** `text`, `image`, `audio`, `resource`, `resource_link`, `file`, or a type that the author defines. */
  type: string;
}

export const CONTENT_LIMITS = {
  /** Longer base64 data is stored as an artifact. */
  inline_chars: 16 * 1024,
  /** The limit for a block without a known text form, which is shown as JSON. */
  json_chars: 10_000,
  /** Vendors derive the tokens of an image from its pixels and scale large images down; this is about the maximum. */
  image_tokens: 1_600,
  /** Vendors count a page of a PDF as its text and an image of it. A page has about this many characters of base64. */
  pdf_page_chars: 100_000,
} as const;

const CHARS_PER_TOKEN = 4;

export function isContent(value: Json | undefined): value is ContentBlock[] {
  return Array.isArray(value) && value.every((block) => isObject(block) && isText(block.type));
}

/** Returns the block in its canonical form; a block that already has this form, or that is unknown, is not changed. */
export function normalizeContent(block: ContentBlock): ContentBlock {
  const { type } = block;
  if (type === "image_url" || type === "input_image") return fromUrl(block, "image", urlOf(block));
  if (type === "input_audio" && isObject(block.input_audio)) {
    const { data, format } = block.input_audio;
    if (isText(data) && isText(format)) return { type: "audio", data, mimeType: `audio/${format}` };
  }
  if (type === "document" || type === "file" || type === "input_file") return fromFile(block);
  if (type !== "image" && type !== "audio") return block;
  const { source } = block;
  if (isObject(source)) {
    if (source.type === "base64" && isText(source.data)) {
      const { source: _source, ...rest } = block;
      return { ...rest, data: source.data, mimeType: mimeTypeIn(source) ?? defaultType(type) };
    }
    if (source.type === "url") return fromUrl(block, type, source.url);
  }
  if (isText(block.data) && block.data.startsWith("data:")) return fromUrl(block, type, block.data);
  if (!isText(block.data) || isText(block.mimeType)) return block;
  const { mime_type: _mime, media_type: _media, content_type: _content, ...rest } = block;
  return { ...rest, mimeType: mimeTypeIn(block) ?? defaultType(type) };
}

/**
 * Returns an attachment of a user's message as a block. An attachment may lack a type: it is then a text, data with or
 * without a media type, or only a name. All other fields are kept.
 */
export function attachmentToBlock(attachment: JsonObject): ContentBlock {
  const { type, text, data, url, resource } = attachment;
  if (isText(type)) return attachment as ContentBlock;
  if (typeof text === "string") return { ...attachment, type: "text" };
  if (isObject(resource)) return { ...attachment, type: "resource" };
  const declared =
    mimeTypeIn(attachment) ?? (isText(data) ? /^data:([\w.+-]+\/[\w.+-]+)/.exec(data)?.[1] : undefined);
  if (declared?.startsWith("image/") === true) return { ...attachment, type: "image" };
  if (!isText(data)) return { ...attachment, type: declared === undefined && isText(url) ? "image" : "file" };
  if (declared?.startsWith("audio/") === true) return { ...attachment, type: "audio" };
  if (declared === undefined && imageTypeOf(data) !== null) return { ...attachment, type: "image" };
  const { data: _data, ...rest } = attachment;
  const uri = `file:///${encodeURI(isText(attachment.name) ? attachment.name : "file")}`;
  const blob = data.replace(/^data:[^,]*;base64,/, "");
  const mimeType = declared ?? "application/octet-stream";
  return { ...rest, type: "resource", resource: { uri, mimeType, blob } };
}

/** The image formats that every vendor reads, with the first characters of their base64. */
const IMAGE_STARTS: readonly [mimeType: string, start: string][] = [
  ["image/png", "iVBORw0KGgo"],
  ["image/jpeg", "/9j/"],
  ["image/gif", "R0lGOD"],
  ["image/webp", "UklGR"],
];

/** The format of an image, read from its data. Null if it is not one that every vendor reads. */
export function imageTypeOf(base64: string): string | null {
  return IMAGE_STARTS.find(([, start]) => base64.startsWith(start))?.[0] ?? null;
}

/** The data inside a block, in base64 for binary data and as text for a text. Null if there is none. */
export function inlineDataOf(
  block: ContentBlock,
): { mimeType: string; base64?: string; text?: string } | null {
  const { type, resource } = block;
  if ((type === "image" || type === "audio") && isText(block.data))
    return { mimeType: mimeTypeIn(block) ?? defaultType(type), base64: block.data };
  if (type !== "resource" || !isObject(resource)) return null;
  const mimeType = mimeTypeIn(resource) ?? "application/octet-stream";
  if (isText(resource.blob)) return { mimeType, base64: resource.blob };
  return isText(resource.text)
    ? { mimeType: mimeTypeIn(resource) ?? "text/plain", text: resource.text }
    : null;
}

/** Returns the block of a stored artifact with its data instead of the reference. */
export function withInlineData(block: ContentBlock, base64: string): ContentBlock {
  const { transport: _t, path: _p, bytes: _b, sha256: _s, invocation_id: _i, ...rest } = block;
  if (block.type === "image" || block.type === "audio") return { ...rest, type: block.type, data: base64 };
  const resource = isObject(block.resource)
    ? block.resource
    : { uri: `file:///${encodeURI(isText(block.path) ? block.path : "file")}` };
  return { ...rest, type: "resource", resource: { ...resource, blob: base64 } };
}

/** Describes a block for a reader who cannot see it: its text, or its kind, size and storage location. */
export function describeContent(block: ContentBlock): string {
  const { type, resource } = block;
  if (type === "text" && typeof block.text === "string") return block.text;
  if (type === "resource_link") {
    const facts = [block.name, block.uri, mimeTypeIn(block), block.description].filter(isText);
    return `[resource link: ${facts.join(", ")}]`;
  }
  const inner = type === "resource" && isObject(resource) ? resource : block;
  const stored = isArtifact(block) && isText(block.sha256) ? block.sha256 : null;
  const data = inlineDataOf(block);
  if (stored === null && data === null) return truncate(JSON.stringify(block));
  const facts = [inner.uri ?? inner.name ?? block.path, mimeTypeIn(inner), formatSize(block, data)].filter(
    isText,
  );
  const location = stored === null ? "" : `, stored as artifact ${stored}${ownerOf(block)}`;
  const head = `[${type}: ${facts.join(", ")}${location}]`;
  return data?.text === undefined ? head : `${head}\n${data.text}`;
}

/** The text form of all blocks. */
export function contentText(content: readonly ContentBlock[]): string {
  return content.map(describeContent).join("\n");
}

/** The estimated size of blocks that a model receives, in characters; four characters are about one token. */
export function contentChars(content: readonly ContentBlock[]): number {
  let chars = 0;
  const image = CONTENT_LIMITS.image_tokens * CHARS_PER_TOKEN;
  for (const item of content) {
    const block = normalizeContent(item);
    if (isImage(block)) chars += image;
    else if (isPdf(block)) chars += image * pdfPages(block);
    else chars += describeContent(block).length;
  }
  return chars;
}

/** A stored PDF counts too, because its data is loaded for the model. */
function pdfPages(block: ContentBlock): number {
  const base64 =
    typeof block.bytes === "number" ? (block.bytes * 4) / 3 : inlineDataOf(block)?.base64?.length;
  return Math.max(1, Math.ceil((base64 ?? 0) / CONTENT_LIMITS.pdf_page_chars));
}

export function isImage(block: ContentBlock): boolean {
  if (block.type === "image") return true;
  return isObject(block.resource) && mimeTypeIn(block.resource)?.startsWith("image/") === true;
}

export function isPdf(block: ContentBlock): boolean {
  const described = isObject(block.resource) ? block.resource : block;
  return mimeTypeIn(described) === "application/pdf";
}

export function isAudio(block: ContentBlock): boolean {
  return block.type === "audio";
}

export function mimeTypeIn(value: JsonObject): string | undefined {
  for (const key of ["mimeType", "mime_type", "media_type", "content_type"]) {
    const field = value[key];
    if (isText(field)) return field;
  }
  return undefined;
}

function fromUrl(block: ContentBlock, type: string, url: Json | undefined): ContentBlock {
  const inline = typeof url === "string" ? /^data:([\w.+-]+\/[\w.+-]+);base64,/.exec(url) : null;
  if (inline !== null) return { type, data: (url as string).slice(inline[0].length), mimeType: inline[1]! };
  // The gateway does not fetch URLs that plugins return, so an image elsewhere stays a link.
  return isText(url) ? { type: "resource_link", uri: url, name: type } : block;
}

/** A file with inline data in the format of Anthropic (`source`) or OpenAI (`file_data`). */
function fromFile(block: ContentBlock): ContentBlock {
  const { source, title } = block;
  const file = isObject(block.file) ? block.file : block;
  const name = [file.filename, title].find(isText) ?? "document";
  const uri = `file:///${encodeURI(name)}`;
  if (isObject(source) && source.type === "base64" && isText(source.data)) {
    const mimeType = mimeTypeIn(source) ?? "application/octet-stream";
    return { type: "resource", resource: { uri, mimeType, blob: source.data } };
  }
  const inline = isText(file.file_data) ? /^data:([\w.+-]+\/[\w.+-]+);base64,/.exec(file.file_data) : null;
  if (inline === null) return block;
  const blob = (file.file_data as string).slice(inline[0].length);
  return { type: "resource", resource: { uri, mimeType: inline[1]!, blob } };
}

function urlOf({ image_url }: ContentBlock): Json | undefined {
  return isObject(image_url) ? image_url.url : image_url;
}

function defaultType(type: string): string {
  return type === "image" ? "image/png" : "audio/wav";
}

function formatSize(block: ContentBlock, data: ReturnType<typeof inlineDataOf>): string | undefined {
  if (typeof block.bytes === "number") return `${block.bytes} bytes`;
  if (data?.base64 === undefined) return undefined;
  return `${base64Bytes(data.base64)} bytes`;
}

export function base64Bytes(base64: string): number {
  const padding = base64.endsWith("==") ? 2 : base64.endsWith("=") ? 1 : 0;
  return Math.max(0, Math.floor((base64.length * 3) / 4) - padding);
}

function ownerOf({ invocation_id }: ContentBlock): string {
  return isText(invocation_id) ? ` of invocation ${invocation_id}` : "";
}

function truncate(text: string): string {
  return text.length <= CONTENT_LIMITS.json_chars ? text : `${text.slice(0, CONTENT_LIMITS.json_chars)}…`;
}

function isText(value: Json | undefined): value is string {
  return typeof value === "string" && value !== "";
}
