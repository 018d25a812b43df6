/**
 * What the tools of one binding are, as the running thing itself described them. A definition that changes under an
 * unchanged package and binding is kept back until somebody has looked at it: it may be the same server with other
 * words for the model.
 */
import { z } from "zod";
import { ToolExportSchema } from "./manifest.ts";
import { JsonObjectSchema, TimestampSchema } from "./scalars.ts";

const SchemasSchema = z.record(z.string(), z.json());

const ToolWordsSchema = z.object({ export: ToolExportSchema, schemas: SchemasSchema });

/** One text or value that differs from what was accepted. */
export const ToolChangeSchema = z.object({
  path: z.string().describe("JSON pointer, such as /description or /input_schema/properties/city."),
  change: z.enum(["added", "removed", "changed"]),
  before: z.json().optional(),
  after: z.json().optional(),
  hidden: z.array(z.string()).describe("Hidden characters in the new value, which is shown without them."),
});

export const QuarantinedToolSchema = ToolWordsSchema.extend({
  since: TimestampSchema,
  /** As it was last accepted; null where that is not known any more. */
  former: ToolWordsSchema.nullable().default(null),
  /** What differs from that. */
  changes: z.array(ToolChangeSchema).default([]),
});

export const DefinitionsSchema = z.object({
  binding_id: z.string(),
  /** Of the bytes and the binding that were asked; another generation is asked anew and may differ. */
  package_digest: z.string(),
  generation: z.int(),
  exports: z.array(ToolExportSchema),
  schemas: SchemasSchema,
  /** Changed or new since an operator last saw them; offered to nobody. */
  quarantined: z.array(QuarantinedToolSchema),
  /** Tools that are gone, as they were: one that comes back changed is shown beside this. */
  gone: z.array(ToolWordsSchema).default([]),
  /** Digest of each tool as it was last accepted, also of those that are gone. */
  seen: z.record(z.string(), z.string()),
  /** Why the last question got no answer; the definitions before it stand. */
  error: z.object({ code: z.string(), message: z.string(), fix: z.string().optional() }).nullable(),
  warnings: z.array(z.string()),
  /** What the dialect learned besides, such as a server's name and capabilities. */
  info: JsonObjectSchema,
  described_at: TimestampSchema,
  /** Of everything that is offered: it changes when they do. */
  digest: z.string(),
  /** Rises with every write. */
  revision: z.int(),
});

export type ToolChange = z.infer<typeof ToolChangeSchema>;
export type ToolWords = z.infer<typeof ToolWordsSchema>;
export type QuarantinedTool = z.infer<typeof QuarantinedToolSchema>;
export type Definitions = z.infer<typeof DefinitionsSchema>;
