import { z } from "zod";
import { ENTRY_KINDS } from "../vocabulary/vocabulary.ts";
import { JsonObjectSchema, TimestampSchema } from "./scalars.ts";
import { ChainSchema } from "./session.ts";

/** How much of the source a compaction kept. Only entries that the model could see are counted. */
export const CompactionLossSchema = z.object({
  /** Entries that are on the new chain unchanged. */
  kept: z.int(),
  /** Entries that a block of the new chain names as its sources. */
  condensed: z.int(),
  /** All other entries. At most the summary mentions them. */
  dropped: z.int(),
  dropped_tokens: z.int(),
  /** The ids of the dropped entries, as pairs of first and last. */
  dropped_entries: z.array(z.tuple([z.int(), z.int()])),
});

/** The compactor that produced the new chain. */
export const UsedCompactorSchema = z.object({
  binding_id: z.string(),
  export_id: z.string(),
  package_id: z.string(),
  package_version: z.string(),
  invocation_id: z.string(),
});

/** A compactor that was tried before the one that was used, and why it failed. */
export const FailedCompactorSchema = z.object({
  binding_id: z.string(),
  export_id: z.string(),
  code: z.string(),
  message: z.string(),
});

/** A compaction, as its new chain records it. Fields that an older gateway did not record are null. */
export const CompactionSchema = z.object({
  chain: ChainSchema,
  summary: z.string(),
  source: z.object({ chain_id: z.string(), last_entry_id: z.int() }),
  tokens_before: z.int().nullable(),
  tokens_after: z.int().nullable(),
  /** Null if the model of the session wrote the summary. */
  compactor: UsedCompactorSchema.nullable(),
  failed_compactors: z.array(FailedCompactorSchema),
  /** The figures that the compactor returned. */
  diagnostics: JsonObjectSchema.nullable(),
  loss: CompactionLossSchema.nullable(),
});

/** The outcome of a compaction for one entry of its source. */
export const CompactedEntrySchema = z.object({
  entry_id: z.int(),
  kind: z.enum(ENTRY_KINDS),
  outcome: z.enum(["kept", "condensed", "dropped"]),
  tokens_before: z.int(),
  /** The tokens of the entry's copy; 0 if there is no copy. */
  tokens_after: z.int(),
  /** The entries of the new chain that hold the entry or were condensed from it. */
  into: z.array(z.int()),
});

/** An entry that every compaction keeps unchanged. */
export const PinSchema = z.object({
  /** The entry as it was first written. Its copies on compacted chains are pinned too. */
  entry_id: z.int(),
  kind: z.enum(ENTRY_KINDS),
  /** The beginning of the entry's text. */
  text: z.string(),
  /** Whether the model sees the entry or a copy of it. */
  in_context: z.boolean(),
  pinned_by: z.string(),
  pinned_at: TimestampSchema,
});

export type CompactionLoss = z.infer<typeof CompactionLossSchema>;
export type UsedCompactor = z.infer<typeof UsedCompactorSchema>;
export type FailedCompactor = z.infer<typeof FailedCompactorSchema>;
export type Compaction = z.infer<typeof CompactionSchema>;
export type CompactedEntry = z.infer<typeof CompactedEntrySchema>;
export type Pin = z.infer<typeof PinSchema>;
