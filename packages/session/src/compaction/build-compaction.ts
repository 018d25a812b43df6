/** Builds a compaction with the record of its tokens and its loss, whoever wrote the summary (compactor.loss). */

import type { JsonObject } from "@backplane/contract";
import type { NewEntry } from "@backplane/ports";
import type { ChainCompaction, HydratedSession } from "../sessions/sessions.ts";
import { classifyEntries, summarizeLoss } from "./loss.ts";
import { estimateCompacted, estimateTokens } from "./tokens.ts";

/**
 * Builds the compaction that replaces the head of the session with the summary and the seed. `details` describes the
 * compactor that wrote the summary.
 */
export function buildCompaction(
  source: HydratedSession,
  { summary, seed }: { summary: string; seed: readonly NewEntry[] },
  details: JsonObject,
): Required<ChainCompaction> {
  const { session, entries } = source;
  const compacted_entries = classifyEntries(
    entries,
    seed.map((entry) => ({ id: 0, ...entry })),
  );
  return {
    summary,
    // The last entry of this chain is used, because after an undo the session also has later entries on the
    // abandoned chain.
    source: { chain_id: session.head_chain_id, last_entry_id: source.entries.at(-1)?.id ?? 0 },
    tokens_before: estimateTokens(entries),
    tokens_after: estimateCompacted({ summary, seed }),
    seed,
    record: {
      ...details,
      first_entry_id: entries[0]?.id ?? 0,
      loss: summarizeLoss(compacted_entries) as unknown as JsonObject,
    },
  };
}
