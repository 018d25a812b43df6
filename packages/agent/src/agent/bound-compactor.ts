/** The scope's bound compactor, through the one door like everything else. */

import { BackplaneError, type Block, isErrorCode, type Json, type JsonObject } from "@backplane/contract";
import { type Door, invoke } from "@backplane/door";
import { blockOf, entryOfBlock } from "@backplane/session";
import type { CompactionDeps } from "../loop/compaction.ts";

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
      const code = error !== null && isErrorCode(error.code) ? error.code : "loop.failed";
      throw new BackplaneError(code, `the compactor failed: ${error?.message ?? status}`);
    }
    // The door has checked the shape (answer-shape.ts).
    const { seed_blocks = [], summary } = result as { seed_blocks?: Block[]; summary?: { text: string } };
    const date = new Date(door.deps.clock.now()).toISOString();
    return {
      summary: summary?.text ?? "",
      seed: seed_blocks.map((block) => entryOfBlock({ ...block, content: block.content ?? [] }, date)),
    };
  };
}
