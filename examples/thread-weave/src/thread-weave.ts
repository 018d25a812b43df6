/** The compactor: chooses the blocks that stay unchanged and weaves the rest into blocks by topic. */
import { type CompactAnswer, type CompactRequest, compactor, definePlugin } from "@backplane/sdk";
import { type ChainBlock, sizeOf } from "./chain-block.ts";
import { weave } from "./weave.ts";

const DEFAULT_RECENT_SHARE = 0.2;
/** The fraction to which a chain is reduced if no target is given. */
const DEFAULT_SHARE = 0.4;
const CHARS_PER_TOKEN = 4;
/** Reserved for the text of the summary. */
const SUMMARY_CHARS = 80;

const threadWeave = compactor({
  id: "thread_weave",
  config: {
    type: "object",
    properties: {
      recent_share: {
        type: "number",
        minimum: 0.1,
        maximum: 0.9,
        description:
          "The share of the target for recent context; the rest is for older history. Default 0.2.",
      },
    },
    additionalProperties: false,
  },
  compact: (request, call) => compactChain(request, call.config.recent_share ?? DEFAULT_RECENT_SHARE),
});

export const plugin = definePlugin({
  package_id: "backplane/thread-weave",
  version: "0.1.0",
  exports: [threadWeave],
});

export function compactChain(request: CompactRequest, recent_share: number): CompactAnswer {
  const { projection } = request.source;
  const blocks = (projection.blocks ?? []) as unknown as ChainBlock[];
  const size = sum(blocks.map(sizeOf));
  const target = (request.target.max_input_tokens ?? 0) * CHARS_PER_TOKEN || size * DEFAULT_SHARE;
  const required = findRequiredBlocks(blocks, request);
  const budget = Math.max(0, target - SUMMARY_CHARS - sum([...required].map(sizeOf)));
  const start = findRecentStart(blocks, required, budget * recent_share);
  const recent = blocks.slice(start);
  const required_blocks = blocks.slice(0, start).filter((block) => required.has(block));
  const older = blocks.slice(0, start).filter((block) => !required.has(block) && block.kind !== "thinking");
  const room = budget - sum(recent.filter((block) => !required.has(block)).map(sizeOf));
  const woven = weave(older, room);
  const seed_blocks = [
    ...required_blocks,
    ...woven.blocks,
    ...recent,
  ] as unknown as CompactAnswer["seed_blocks"];
  return {
    seed_blocks,
    summary: {
      text:
        woven.blocks.length === 0
          ? "Earlier messages were left out."
          : `Earlier messages are condensed into ${woven.blocks.length} blocks by topic.`,
    },
    diagnostics: {
      input_tokens_estimate: Math.ceil(size / CHARS_PER_TOKEN),
      output_tokens_estimate: Math.ceil(
        sum([...required_blocks, ...woven.blocks, ...recent].map(sizeOf)) / CHARS_PER_TOKEN,
      ),
      kept: required_blocks.length + recent.length,
      topics: woven.titles,
      woven: woven.sources,
    },
  };
}

/** The blocks that the host requires: pinned items, system messages and open tasks. */
function findRequiredBlocks(
  blocks: readonly ChainBlock[],
  { source, policy }: CompactRequest,
): Set<ChainBlock> {
  const pins = new Set(
    (source.projection.pinned_items ?? []).map((item) => (item as { entry_id?: number }).entry_id),
  );
  const last_response = blocks.findLastIndex(({ kind }) => kind === "response");
  const answered_ids = new Set(
    blocks
      .slice(last_response + 1)
      .flatMap(({ kind, tool_call_id }) => (kind === "tool_result" ? [tool_call_id] : [])),
  );
  return new Set(
    blocks.filter((block, index) => {
      const { kind, name, entry_id, tool_call_id, from_entries } = block;
      if (pins.has(entry_id)) return true;
      // The summary of an earlier compaction is history like any other.
      if (kind === "system") return policy.retain_system !== false && name !== "summary";
      if (policy.retain_open_tasks === false || index <= last_response) return false;
      if (kind === "input") return from_entries === undefined;
      return kind === "tool_call" && !answered_ids.has(tool_call_id);
    }),
  );
}

/**
 * The start of the longest tail that fits. It begins with a message from the user, so calls stay with their results.
 */
function findRecentStart(
  blocks: readonly ChainBlock[],
  required: ReadonlySet<ChainBlock>,
  room: number,
): number {
  let start = blocks.length;
  let used = 0;
  for (let index = blocks.length - 1; index >= 0; index--) {
    const block = blocks[index]!;
    if (block.from_entries !== undefined) break;
    if (!required.has(block)) used += sizeOf(block);
    if (used > room) break;
    if (block.kind === "input") start = index;
  }
  return start;
}

function sum(numbers: readonly number[]): number {
  return numbers.reduce((total, number) => total + number, 0);
}
