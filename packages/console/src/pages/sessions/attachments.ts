/** Files that are sent with a message. A message and its files are one request, which limits their size. */
import { isObject, type JsonObject } from "@backplane/contract";
import { bytesText } from "../../parts/text/bytes-text.ts";

export interface MessageAttachment {
  name: string;
  /** The size of the data that is sent. */
  bytes: number;
  /** The block that the model gets. */
  block: JsonObject;
}

/** A request has at most 1 MiB; the rest is left for its other fields. */
const MAX_MESSAGE_BYTES = 1024 * 1024 - 16 * 1024;
/** The limit for one file, which grows by a third in base64. */
const MAX_FILE_BYTES = 740_000;
export const MAX_ATTACHMENTS = 20;

/** Images that every model provider accepts. */
const SENT_IMAGES = /^image\/(?:png|jpeg|gif|webp)$/;
const TEXT_TYPES = /^text\/|^application\/(?:.*\+)?(?:json|xml|yaml|x-yaml|toml|javascript|sql|x-sh)$/;
const TEXT_NAMES =
  /\.(?:c|cc|cfg|conf|cpp|cs|css|csv|diff|env|go|h|html?|ini|java|jsx?|json|jsonl|kt|log|lua|md|patch|php|pl|py|rb|rs|sh|sql|svg|swift|toml|tsx?|tsv|txt|xml|ya?ml)$/i;
/** The longest side of an image in pixels. Providers scale larger images down. */
const MAX_SIDE_PX = 1_568;
/** An image of at most this size is sent unchanged. */
const SCALE_BYTES = 400_000;

/** Throws an error whose message can be shown to the person. */
export async function readAttachment(file: File): Promise<MessageAttachment> {
  const name = file.name === "" ? "pasted-image.png" : file.name;
  if (file.size === 0) throw new Error(`${name} is empty.`);
  if (file.type.startsWith("image/") && file.type !== "image/svg+xml") return await readImage(file, name);
  if (file.size > MAX_FILE_BYTES)
    throw new Error(
      `${name} is ${bytesText(file.size)}. A message can have files of up to ${bytesText(MAX_FILE_BYTES)}.`,
    );
  const uri = `file:///${encodeURI(name)}`;
  const text = TEXT_TYPES.test(file.type) || TEXT_NAMES.test(name) ? await readText(file) : null;
  const mimeType = file.type || (text === null ? "application/octet-stream" : "text/plain");
  const resource: JsonObject =
    text === null
      ? { uri, mimeType, blob: toBase64(new Uint8Array(await file.arrayBuffer())) }
      : { uri, mimeType, text };
  return { name, bytes: file.size, block: { type: "resource", resource } };
}

/** Null if the file is not text, whatever its name suggests. */
async function readText(file: File): Promise<string | null> {
  const text = await file.text();
  return text.includes("\u{fffd}") || text.includes("\0") ? null : text;
}

async function readImage(file: File, name: string): Promise<MessageAttachment> {
  const sendable = SENT_IMAGES.test(file.type);
  if (sendable && file.size <= SCALE_BYTES)
    return imageAttachment(name, file.type, new Uint8Array(await file.arrayBuffer()));
  const scaled = await scaleImage(file, name);
  return imageAttachment(name, scaled.type, new Uint8Array(await scaled.arrayBuffer()));
}

function imageAttachment(name: string, mimeType: string, bytes: Uint8Array): MessageAttachment {
  return {
    name,
    bytes: bytes.length,
    block: { type: "image", data: toBase64(bytes), mimeType, name },
  };
}

async function scaleImage(file: File, name: string): Promise<Blob> {
  let image: ImageBitmap;
  try {
    image = await createImageBitmap(file);
  } catch {
    throw new Error(`${name} cannot be read as an image. Convert it to PNG or JPEG.`);
  }
  const { width, height } = scaledSize(image.width, image.height);
  const canvas = new OffscreenCanvas(width, height);
  canvas.getContext("2d")!.drawImage(image, 0, 0, width, height);
  image.close();
  for (const quality of [0.9, 0.75, 0.5]) {
    const scaled = await canvas.convertToBlob({ type: "image/jpeg", quality });
    if (scaled.size <= MAX_FILE_BYTES) return scaled;
  }
  throw new Error(`${name} is too large. A message can have files of up to ${bytesText(MAX_FILE_BYTES)}.`);
}

export function scaledSize(width: number, height: number): { width: number; height: number } {
  const scale = Math.min(1, MAX_SIDE_PX / Math.max(width, height));
  return { width: Math.max(1, Math.round(width * scale)), height: Math.max(1, Math.round(height * scale)) };
}

/** Why the attachments cannot be sent together; null if they can. */
export function attachmentsProblem(text: string, attachments: readonly MessageAttachment[]): string | null {
  if (attachments.length > MAX_ATTACHMENTS)
    return `A message can have at most ${MAX_ATTACHMENTS} files. Remove ${attachments.length - MAX_ATTACHMENTS}.`;
  const body = JSON.stringify({ text, attachments: attachments.map(({ block }) => block) });
  const bytes = new TextEncoder().encode(body).length;
  if (bytes <= MAX_MESSAGE_BYTES) return null;
  return attachments.length === 0
    ? `The message is ${bytesText(bytes)}; the limit is ${bytesText(MAX_MESSAGE_BYTES)}. Shorten it, or split it into several messages.`
    : `The message and its files are ${bytesText(bytes)} together; the limit is ${bytesText(MAX_MESSAGE_BYTES)}. Remove a file, or send it in a separate message.`;
}

export function toBase64(bytes: Uint8Array): string {
  let binary = "";
  for (let at = 0; at < bytes.length; at += 0x8000)
    binary += String.fromCharCode(...bytes.subarray(at, at + 0x8000));
  return btoa(binary);
}

/** The name, MIME type and size of the file in a block. The size is null if the block does not contain the data. */
export function fileOf(block: JsonObject): { name: string; mime: string; bytes: number | null } {
  const { resource } = block;
  const inner = isObject(resource) ? resource : block;
  const location = [inner.name, inner.uri, block.path].find((part) => typeof part === "string") ?? "file";
  const mime = typeof inner.mimeType === "string" ? inner.mimeType : "file";
  const data = [inner.blob, inner.data].find((part) => typeof part === "string");
  const bytes =
    typeof inner.text === "string"
      ? new TextEncoder().encode(inner.text).length
      : data === undefined
        ? null
        : Math.floor((data.length * 3) / 4);
  return { name: decodeName(location.split("/").at(-1)!), mime, bytes };
}

function decodeName(name: string): string {
  try {
    return decodeURI(name);
  } catch {
    return name;
  }
}

/** The attachment of a message that was not sent, for another attempt. */
export function toAttachment(block: JsonObject): MessageAttachment {
  const { name, bytes } = fileOf(block);
  return { name, bytes: bytes ?? 0, block };
}
