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

export const QuarantinedToolSchema = ToolWordsSchema.extend({
  since: TimestampSchema,
  /** As it was last accepted; null where that is not known any more. */
  former: ToolWordsSchema.nullable().default(null),
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

export type ToolWords = z.infer<typeof ToolWordsSchema>;
export type QuarantinedTool = z.infer<typeof QuarantinedToolSchema>;
export type Definitions = z.infer<typeof DefinitionsSchema>;
