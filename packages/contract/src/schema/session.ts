import { z } from "zod";
import { BLOCK_KINDS, CHAIN_ORIGINS, ENTRY_KINDS } from "../vocabulary/vocabulary.ts";
import { ContentBlockSchema, ToolFailureSchema } from "./invocation.ts";
import { JsonObjectSchema, JsonValueSchema, TimestampSchema } from "./scalars.ts";

/** A session. Its key is scope, workspace and id; `name` is only the name of its tape. */
export const SessionSchema = z.object({
  id: z.string(),
  org_id: z.string(),
  project_id: z.string().nullable(),
  workspace: z.string(),
  name: z.string(),
  /** The origin of a forked session. */
  parent_session_id: z.string().nullable(),
  head_chain_id: z.string(),
  /** Increases across all chains of the session. */
  last_entry_id: z.int(),
  metadata: JsonObjectSchema,
  created_at: TimestampSchema,
});

/** An append-only tape. It inherits its parent's entries up to and including `fork_entry_id`. */
export const ChainSchema = z.object({
  id: z.string(),
  org_id: z.string(),
  project_id: z.string().nullable(),
  workspace: z.string(),
  session_id: z.string(),
  origin: z.enum(CHAIN_ORIGINS),
  parent_chain_id: z.string().nullable(),
  fork_entry_id: z.int(),
  last_entry_id: z.int(),
  /** The hash of the last entry, which covers all earlier entries. */
  hash: z.string(),
  archived_at: TimestampSchema.nullable(),
  created_at: TimestampSchema,
});

/** One entry of a tape. */
export const EntrySchema = z.object({
  id: z.int(),
  kind: z.enum(ENTRY_KINDS),
  payload: JsonObjectSchema,
  meta: JsonObjectSchema,
  date: TimestampSchema,
});

/** An entry in the form that VAI's APIs and compactors use. */
export const BlockSchema = z.object({
  /** Absent for a block that is not on a tape yet. */
  entry_id: z.int().optional(),
  kind: z.enum(BLOCK_KINDS),
  content: z.array(ContentBlockSchema).default([]),
  tool_call_id: z.string().optional(),
  name: z.string().optional(),
  input: JsonValueSchema.optional(),
  structured_output: JsonValueSchema.optional(),
  is_error: z.boolean().optional(),
  /** Only in a tool_result: the author's short status, and why the call failed. */
  status: z.string().optional(),
  failure: ToolFailureSchema.optional(),
  /** The entries that a compactor condensed into this block. */
  from_entries: z.array(z.int().min(1)).optional(),
});

export type Session = z.infer<typeof SessionSchema>;
export type Chain = z.infer<typeof ChainSchema>;
export type Entry = z.infer<typeof EntrySchema>;
export type Block = z.infer<typeof BlockSchema>;
