/** The scope's bound compactor, through the one door like everything else. */
import { BackplaneError, type Block, type Json, type JsonObject } from "@backplane/contract";
import type { Door } from "../invoke/door.ts";
import { invoke } from "../invoke/invoke.ts";
import type { CompactionDeps } from "../loop/compaction.ts";
import { blockOf, entryOfBlock } from "../sessions/blocks.ts";

const BLOCK_KINDS: ReadonlySet<Json | undefined> = new Set([
  "system",
  "input",
  "response",
  "thinking",
  "tool_call",
  "tool_result",
]);

export function boundCompactor(door: Door): CompactionDeps["bound"] {
  return async (caller, { session, entries }, target_tokens) => {
    const [found] = await door.deps.store.bindings.discover(caller.scope, "compactor");
    if (found === undefined) return null;
    const blocks = entries.flatMap((entry) => blockOf(entry) ?? []);
    const input: JsonObject = {
      source: {
        chain_id: session.head_chain_id,
        projection: {
          transport: "inline",
          blocks: blocks as unknown as Json,
          pinned_items: [],
          token_estimate: Math.ceil(JSON.stringify(blocks).length / 4),
        },
      },
      target: { max_input_tokens: target_tokens },
      policy: { retain_system: true },
    };
    const { binding_id } = found.binding;
    const ticket = await invoke(door, { caller, body: { binding_id, input } });
    const { status, result, error } = await ticket.settled;
    if (status !== "succeeded") {
      throw new BackplaneError("loop.failed", `the compactor failed: ${error?.message ?? status}`);
    }
    const { seed_blocks, summary } = result as { seed_blocks?: Json; summary?: { text?: Json } };
    const date = new Date(door.deps.clock.now()).toISOString();
    const seed = Array.isArray(seed_blocks) ? seed_blocks.filter(isBlock) : [];
    return {
      summary: typeof summary?.text === "string" ? summary.text : "",
      seed: seed.map((block) => entryOfBlock(block as unknown as Block, date)),
    };
  };
}

function isBlock(value: Json): value is JsonObject {
  return typeof value === "object" && value !== null && !Array.isArray(value) && BLOCK_KINDS.has(value.kind);
}
