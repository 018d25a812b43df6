/**
 * Tool definitions of a binding, as its running process described them. A definition that changes while the package
 * stays the same is hidden until an operator accepts it, because a server could use it to inject instructions into the
 * model.
 */
import { z } from "zod";
import { ToolExportSchema } from "./manifest.ts";
import { JsonObjectSchema, TimestampSchema } from "./scalars.ts";

const SchemasSchema = z.record(z.string(), z.json());

/** The definition of one tool, with the schemas that it refers to. */
const DescribedToolSchema = z.object({ export: ToolExportSchema, schemas: SchemasSchema });

/** A text or value that differs from the accepted definition. */
export const ToolChangeSchema = z.object({
  path: z.string().describe("JSON pointer, such as /description or /input_schema/properties/city."),
  change: z.enum(["added", "removed", "changed"]),
  before: z.json().optional(),
  after: z.json().optional(),
  hidden: z
    .array(z.string())
    .describe("Hidden characters in the new value. The value is shown without them."),
});

export const QuarantinedToolSchema = DescribedToolSchema.extend({
  since: TimestampSchema,
  /** The last accepted definition; null if it is no longer known. */
  former: DescribedToolSchema.nullable().default(null),
  /** Differences from the accepted definition. */
  changes: z.array(ToolChangeSchema).default([]),
});

export const DefinitionsSchema = z.object({
  binding_id: z.string(),
  /** Package digest and binding generation of the process. The process of a new generation may describe other tools. */
  package_digest: z.string(),
  generation: z.int(),
  exports: z.array(ToolExportSchema),
  schemas: SchemasSchema,
  /** Tools that have changed since their last accepted definition; not offered until an operator accepts them. */
  quarantined: z.array(QuarantinedToolSchema),
  /** Removed tools with their last definition, for comparison if one returns. */
  gone: z.array(DescribedToolSchema).default([]),
  /** Digest of the last accepted definition of each tool, including removed ones. */
  seen: z.record(z.string(), z.string()),
  /** Why the last request for the tools failed; null if it succeeded. */
  error: z.object({ code: z.string(), message: z.string(), fix: z.string().optional() }).nullable(),
  warnings: z.array(z.string()),
  /** Other facts that the process reported, such as a server's name and capabilities. */
  info: JsonObjectSchema,
  described_at: TimestampSchema,
  /** Digest over all offered tools. */
  digest: z.string(),
  /** Increases with every write. */
  revision: z.int(),
});

export type ToolChange = z.infer<typeof ToolChangeSchema>;
export type DescribedTool = z.infer<typeof DescribedToolSchema>;
export type QuarantinedTool = z.infer<typeof QuarantinedToolSchema>;
export type Definitions = z.infer<typeof DefinitionsSchema>;
