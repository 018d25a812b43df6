/**
 * The entries that a compaction kept, condensed and dropped (compactor.loss). The new chain records the totals and the
 * ids of the dropped entries. The outcome for each entry is computed from the two chains, which never change.
 */
import type { CompactedEntry, CompactionLoss, Entry } from "@backplane/contract";
import { blockOf } from "../sessions/blocks.ts";
import { ContextBuilder } from "../sessions/context.ts";

/** `seed` contains the entries after the anchor of the new chain. */
export function classifyEntries(source: readonly Entry[], seed: readonly Entry[]): CompactedEntry[] {
  const copies = new Map<number, { ids: number[]; tokens: number }>();
  const condensed = new Map<number, number[]>();
  for (const { entry, tokens } of withTokens(seed)) {
    const { copy_of, from_entries } = entry.meta;
    if (typeof copy_of === "number") {
      const copy = copies.get(copy_of) ?? { ids: [], tokens: 0 };
      copies.set(copy_of, { ids: [...copy.ids, entry.id], tokens: copy.tokens + tokens });
    }
    for (const id of Array.isArray(from_entries) ? (from_entries as number[]) : []) {
      const into = condensed.get(id);
      if (into === undefined) condensed.set(id, [entry.id]);
      else into.push(entry.id);
    }
  }
  const compacted_entries: CompactedEntry[] = [];
  for (const { entry, tokens } of withTokens(source)) {
    if (blockOf(entry) === null) continue;
    const original = typeof entry.meta.copy_of === "number" ? entry.meta.copy_of : entry.id;
    const copy = entry.kind === "anchor" ? undefined : copies.get(original);
    const into = copy?.ids ?? condensed.get(entry.id) ?? condensed.get(original) ?? [];
    const outcome = copy !== undefined ? "kept" : into.length > 0 ? "condensed" : "dropped";
    compacted_entries.push({
      entry_id: entry.id,
      kind: entry.kind,
      outcome,
      tokens_before: tokens,
      tokens_after: copy?.tokens ?? 0,
      into,
    });
  }
  return compacted_entries;
}

export function summarizeLoss(compacted_entries: readonly CompactedEntry[]): CompactionLoss {
  const count = (wanted: CompactedEntry["outcome"]) =>
    compacted_entries.filter(({ outcome }) => outcome === wanted).length;
  const ranges: [number, number][] = [];
  let dropped_tokens = 0;
  let previous_was_dropped = false;
  for (const { entry_id, outcome, tokens_before } of compacted_entries) {
    if (outcome === "dropped") {
      dropped_tokens += tokens_before;
      if (previous_was_dropped) ranges.at(-1)![1] = entry_id;
      else ranges.push([entry_id, entry_id]);
    }
    previous_was_dropped = outcome === "dropped";
  }
  return {
    kept: count("kept"),
    condensed: count("condensed"),
    dropped: count("dropped"),
    dropped_tokens,
    dropped_entries: ranges,
  };
}

/** The estimates of all entries add up to the estimate of the whole context. */
function* withTokens(entries: readonly Entry[]): Generator<{ entry: Entry; tokens: number }> {
  const builder = new ContextBuilder({ count_only: true });
  let before = 0;
  for (const entry of entries) {
    builder.add(entry);
    const after = builder.tokens;
    yield { entry, tokens: Math.max(0, after - (entry.kind === "anchor" ? 0 : before)) };
    before = after;
  }
}
