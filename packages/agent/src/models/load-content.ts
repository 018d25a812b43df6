/**
 * Loads the images, PDFs and audio that a model's context refers to, for providers that accept them. The newest come
 * first, within a budget; a reference that does not fit remains in the message, and the provider describes it as text.
 */
import {
  type ContentBlock,
  isArtifact,
  isAudio,
  isContent,
  isImage,
  isObject,
  isPdf,
  type Json,
  type JsonObject,
} from "@backplane/contract";
import { openArtifact } from "@backplane/door";
import type { KernelDeps, Scope } from "@backplane/ports";

export type LoadContent = (scope: Scope, messages: readonly unknown[]) => Promise<unknown[]>;

/**
 * Vendors accept about 5 MB of base64 for one image, and a request has to fit into one frame of a plugin process (8
 * MiB).
 */
const LIMITS = { block_bytes: 3_700_000, total_bytes: 4_000_000, blocks: 20 } as const;

export function createContentLoader(deps: Pick<KernelDeps, "store" | "artifacts" | "log">): LoadContent {
  async function read(scope: Scope, block: ContentBlock): Promise<string | null> {
    const { invocation_id, sha256 } = block;
    if (typeof invocation_id !== "string" || typeof sha256 !== "string") return null;
    try {
      const file = await openArtifact(deps, await deps.store.invocations.get(scope, invocation_id), sha256);
      if (file === null || file.bytes > LIMITS.block_bytes) return null;
      const chunks: Uint8Array[] = [];
      for await (const chunk of file.content) chunks.push(chunk);
      return Buffer.concat(chunks).toString("base64");
    } catch (error) {
      deps.log.warn({ err: error, invocation_id }, "the content of a tool result could not be read");
      return null;
    }
  }

  return async (scope, messages) => {
    const loaded = [...messages];
    let [bytes_left, blocks_left] = [LIMITS.total_bytes, LIMITS.blocks] as [number, number];
    for (let n = loaded.length - 1; n >= 0 && blocks_left > 0; n--) {
      const message = loaded[n] as { content?: Json };
      const { content } = message;
      if (!isContent(content) || !content.some(isStoredMedia)) continue;
      const blocks: ContentBlock[] = [];
      for (const block of content) {
        const bytes = Number(block.bytes);
        const data =
          isStoredMedia(block) && blocks_left > 0 && bytes <= bytes_left ? await read(scope, block) : null;
        if (data !== null) [bytes_left, blocks_left] = [bytes_left - bytes, blocks_left - 1];
        blocks.push(data === null ? block : withData(block, data));
      }
      loaded[n] = { ...message, content: blocks };
    }
    return loaded;
  };
}

function isStoredMedia(block: ContentBlock): boolean {
  return isArtifact(block) && (isImage(block) || isPdf(block) || isAudio(block));
}

/** Keeps the reference next to the data, so that the tape can record the message without the data. */
function withData(block: ContentBlock, data: string): ContentBlock {
  if (!isObject(block.resource)) return { ...block, data };
  return { ...block, resource: { ...block.resource, blob: data } satisfies JsonObject };
}
