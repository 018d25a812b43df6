/**
 * Converts content blocks into the form that compactors receive, and back. A block that is not text gets a description
 * in `text`. A reference to an artifact gets the transport `stored`, because a plugin may return the transport
 * `artifact` only for a file that it wrote itself.
 */
import { type Block, type ContentBlock, describeContent, isArtifact } from "@backplane/contract";

const STORED = "stored";

export function projectContent(block: Block): Block {
  if (block.content.every(({ type }) => type === "text")) return block;
  return { ...block, content: block.content.map(projectBlock) };
}

/** Restores the original content of a block that a compactor kept. */
export function restoreContent(block: Block): Block {
  return { ...block, content: block.content.map(restoreBlock) };
}

function projectBlock(block: ContentBlock): ContentBlock {
  if (block.type === "text" || block.text !== undefined) return block;
  const text = describeContent(block);
  return isArtifact(block) ? { ...block, text, transport: STORED } : { ...block, text };
}

function restoreBlock(block: ContentBlock): ContentBlock {
  const { text, ...rest } = block;
  if (block.type === "text" || text === undefined) return block;
  const original: ContentBlock = {
    ...rest,
    type: block.type,
    ...(block.transport === STORED ? { transport: "artifact" } : {}),
  };
  return text === describeContent(original) ? original : block;
}
