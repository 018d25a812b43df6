/** The summary that the model writes when no compactor can be used or the caller requests it. */

import { type Entry, LOOP_LIMITS } from "@backplane/contract";
import type { Scope } from "@backplane/ports";
import { contextOf, copyEntry, estimateTokens } from "@backplane/session";
import type { ModelCalls } from "../models/call-model.ts";
import type { CompactionResult, CompactorInput } from "./call-compactor.ts";

const PROMPT =
  "Summarize the conversation so far for your own later use. Keep names, numbers, decisions, open questions, " +
  "file paths and everything that was promised. Leave out small talk. Answer with the summary alone.";

const MIN_SUMMARY_CHARS = 2_000;

/** Older entries become the summary. System messages and pinned, open and recent entries are kept unchanged. */
export async function summarizeWithModel(
  models: ModelCalls,
  model: { provider: string; model: string },
  { entries, retained, target_tokens }: CompactorInput,
  to: { session_id: string; scope: Scope },
  signal: AbortSignal,
): Promise<CompactionResult> {
  const { older, recent } = splitAtUserMessage(entries, target_tokens);
  const retained_entries = new Set([...retained.system, ...retained.pinned, ...retained.open]);
  const seed_entries = [...older.filter((entry) => retained_entries.has(entry)), ...recent];
  const messages = [...contextOf(older), { role: "user" as const, content: PROMPT }];
  const answer = await models.call(
    { ...model, messages, tools: [], params: {} },
    { to, signal, timeout_ms: LOOP_LIMITS.model_ms },
  );
  const max_chars = Math.max(MIN_SUMMARY_CHARS, (target_tokens - estimateTokens(seed_entries)) * 4);
  return {
    summary: answer.text.slice(0, max_chars),
    seed: seed_entries.map(copyEntry),
    compactor: null,
    diagnostics: null,
  };
}

/**
 * Splits before a user's message, so that no call is separated from its result, and as early as possible while the
 * recent entries fit in half of the target. The user's last message and everything after it are always kept, whatever
 * their size. The first entry is the anchor of the chain and is never kept.
 */
export function splitAtUserMessage(
  entries: readonly Entry[],
  target: number,
): { older: Entry[]; recent: Entry[] } {
  let split_at = entries.length;
  let tokens = 0;
  for (let n = entries.length - 1; n > 0; n--) {
    const entry = entries[n]!;
    // An attached image takes fewer tokens than its data has characters.
    if (entry.kind === "message") tokens += estimateTokens([entry]);
    else if (entry.kind !== "event") tokens += Math.ceil(JSON.stringify(entry.payload).length / 4);
    if (entry.kind !== "message" || entry.payload.role !== "user") continue;
    if (tokens > target / 2 && split_at < entries.length) break;
    split_at = n;
    if (tokens > target / 2) break;
  }
  return { older: entries.slice(0, split_at), recent: entries.slice(split_at) };
}
