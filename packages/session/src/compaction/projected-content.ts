/**
 * Converts content blocks into the form that plugins receive, and back. A block that is not text gets a description in
 * `text`. Large data, such as an attached image, is replaced by a reference to its entry, because a conversation with
 * many images would not fit into a request. A reference to an artifact gets the transport `stored`, because a plugin may
 * return the transport `artifact` only for a file that it wrote itself.
 */
import {
  type Block,
  base64Bytes,
  CONTENT_LIMITS,
  type ContentBlock,
  describeContent,
  type Entry,
  inlineDataOf,
  isArtifact,
  isObject,
  normalizeContent,
} from "@backplane/contract";
import { blockOf } from "../sessions/blocks.ts";

const STORED = "stored";

export function projectContent(block: Block): Block {
  if (block.content.every(({ type }) => type === "text")) return block;
  return { ...block, content: block.content.map((content, index) => projectBlock(content, block, index)) };
}

/** Replaces only the large data, for a plugin that may read it through the API. */
export function omitLargeData(block: Block): Block {
  if (block.content.every(({ type }) => type === "text")) return block;
  return {
    ...block,
    content: block.content.map((content, index) => toReference(content, block, index) ?? content),
  };
}

/** Restores the original content of a block that a compactor kept. `source` contains the entries that it received. */
export function restoreContent(block: Block, source: readonly Entry[]): Block {
  return { ...block, content: block.content.map((content) => restoreBlock(content, source)) };
}

function projectBlock(content: ContentBlock, block: Block, content_index: number): ContentBlock {
  if (content.type === "text") return content;
  const reference = toReference(content, block, content_index);
  if (reference !== null) return reference;
  if (content.text !== undefined) return content;
  const text = describeContent(normalizeContent(content));
  return isArtifact(content) ? { ...content, text, transport: STORED } : { ...content, text };
}

/** Returns null for content that is not large. */
function toReference(content: ContentBlock, { entry_id }: Block, content_index: number): ContentBlock | null {
  const block = normalizeContent(content);
  const base64 = inlineDataOf(block)?.base64;
  if (base64 === undefined || base64.length <= CONTENT_LIMITS.inline_chars || entry_id === undefined)
    return null;
  const { data: _data, resource, ...rest } = block;
  const text = describeContent(block);
  const reference = { transport: STORED, bytes: base64Bytes(base64), entry_id, content_index, text };
  if (!isObject(resource)) return { ...rest, type: block.type, ...reference };
  const { blob: _blob, ...described } = resource;
  return { ...rest, type: block.type, resource: described, ...reference };
}

function restoreBlock(block: ContentBlock, source: readonly Entry[]): ContentBlock {
  const { text, ...rest } = block;
  if (block.type === "text" || text === undefined) return block;
  const { entry_id, content_index } = block;
  if (block.transport === STORED && typeof content_index === "number") {
    const entry = source.find(({ id }) => id === entry_id);
    const original = entry === undefined ? undefined : blockOf(entry)?.content[content_index];
    // A reference whose entry does not exist would look like an image to every reader.
    return original ?? { type: "text", text };
  }
  const original: ContentBlock = {
    ...rest,
    type: block.type,
    ...(block.transport === STORED ? { transport: "artifact" } : {}),
  };
  return text === describeContent(normalizeContent(original)) ? original : block;
}
