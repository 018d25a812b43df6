/**
 * Prepares the blocks of a tool's result for the record: one canonical form for all formats, and large data stored as an
 * artifact, so that the row, the tape and its watchers carry a reference. A text block with the reason replaces data
 * that is left out.
 */
import { hash } from "node:crypto";
import {
  ARTIFACT_LIMITS,
  artifactsIn,
  CONTENT_LIMITS,
  type ContentBlock,
  codeOf,
  describeContent,
  type Grant,
  inlineDataOf,
  isArtifact,
  isObject,
  type Json,
  type JsonObject,
  type MaybePromise,
  normalizeContent,
  type ToolResult,
} from "@backplane/contract";
import type { ArtifactFiles, InvocationRow, KernelDeps } from "@backplane/ports";
import type { CallEnding } from "../calls/ending.ts";

type ContentDeps = Pick<KernelDeps, "artifacts" | "host" | "log">;

/**
 * The file that a settled call refers to by this hash, or null. A plugin can write any hash into its result, so only
 * references that the runner checked and blocks that the gateway stored itself are accepted.
 */
export async function openArtifact(
  { artifacts }: Pick<KernelDeps, "artifacts">,
  row: Pick<InvocationRow, "id" | "result" | "grant" | "tool_result"> | null,
  sha256: string,
): ReturnType<ArtifactFiles["open"]> {
  if (row === null || artifacts === undefined) return null;
  const is_referenced =
    (hasCheckedReferences(row.grant) && artifactsIn(row.result).some((item) => item.sha256 === sha256)) ||
    row.tool_result?.content.some((block) => isStoredContent(block, row.id, sha256)) === true;
  return is_referenced ? await artifacts.open(sha256) : null;
}

/** Only references to files in the scratch folder of a process were checked by the runner. */
function hasCheckedReferences(grant: Grant | null): boolean {
  return grant?.filesystem === "scratch" && grant.class !== "inline";
}

/** Whether the gateway itself stored the file as a block of this call. A plugin cannot write such a block. */
function isStoredContent(block: ContentBlock, invocation_id: string, sha256: string): boolean {
  return isArtifact(block) && block.invocation_id === invocation_id && block.sha256 === sha256;
}

/** Synchronous for a result that is only text, as nearly every result is (benchmark http.invoke). */
export function storeContent(
  deps: ContentDeps,
  row: Pick<InvocationRow, "id" | "export_kind">,
  grant: Grant,
  ending: CallEnding,
): MaybePromise<CallEnding> {
  if (row.export_kind !== "tool" || !isObject(ending.result)) return ending;
  const { content } = ending.result as unknown as ToolResult;
  if (content.every(isPlainText)) return ending;
  return storeBlocks(deps, row.id, hasCheckedReferences(grant), content).then((stored) => ({
    ...ending,
    result: { ...(ending.result as JsonObject), content: stored },
  }));
}

async function storeBlocks(
  deps: ContentDeps,
  invocation_id: string,
  references_checked: boolean,
  content: readonly ContentBlock[],
): Promise<ContentBlock[]> {
  const stored: ContentBlock[] = [];
  let files = 0;
  for (const [index, raw] of content.entries()) {
    const block = normalizeContent(raw);
    if (isArtifact(block)) {
      stored.push(
        references_checked ? { ...block, invocation_id } : omittedBlock(block, "its file was not checked"),
      );
      continue;
    }
    const base64 = inlineDataOf(block)?.base64;
    if (
      base64 === undefined ||
      base64.length <= CONTENT_LIMITS.inline_chars ||
      deps.artifacts === undefined
    ) {
      stored.push(block);
    } else if (++files > ARTIFACT_LIMITS.per_result) {
      stored.push(omittedBlock(block, `a result may hold at most ${ARTIFACT_LIMITS.per_result} files`));
    } else {
      stored.push(await storeBlock(deps, invocation_id, index, block, base64));
    }
  }
  return stored;
}

async function storeBlock(
  deps: ContentDeps,
  invocation_id: string,
  index: number,
  block: ContentBlock,
  base64: string,
): Promise<ContentBlock> {
  if (!BASE64.test(base64)) return omittedBlock(block, "its data is not base64");
  const bytes = Buffer.from(base64, "base64");
  if (bytes.length > deps.host.artifact_bytes)
    return omittedBlock(block, "it is larger than limits.artifact_bytes");
  const sha256 = hash("sha256", bytes, "hex");
  try {
    await deps.artifacts!.store(sha256, bytes);
  } catch (error) {
    deps.log.warn({ err: error, invocation_id }, "a block of a result could not be stored");
    const cause = codeOf(error) === "store.unavailable" ? `: ${(error as Error).message}` : "";
    return omittedBlock(block, `it could not be stored${cause}`);
  }
  const path = `block-${index + 1}.${extensionOf(inlineDataOf(block)!.mimeType)}`;
  const reference = { transport: "artifact", path, bytes: bytes.length, sha256, invocation_id };
  if (isObject(block.resource)) {
    const { blob: _blob, ...resource } = block.resource;
    return { ...block, resource, ...reference };
  }
  const { data: _data, ...other_fields } = block;
  return { ...other_fields, type: block.type, ...reference };
}

const BASE64 = /^[A-Za-z0-9+/\s]*={0,2}\s*$/;

function omittedBlock(block: ContentBlock, cause: string): ContentBlock {
  return { type: "text", text: `${describeContent(block)} [left out: ${cause}]` };
}

function isPlainText(block: ContentBlock): boolean {
  return block.type === "text" && typeof (block.text as Json | undefined) === "string" && !isArtifact(block);
}

function extensionOf(mimeType: string): string {
  return /^[\w.+-]+\/([a-z0-9]{1,10})\b/.exec(mimeType)?.[1] ?? "bin";
}
