import { z } from "zod";
import { ManifestSchema } from "./manifest.ts";
import { DigestSchema, TimestampSchema } from "./scalars.ts";

export const PackageSchema = z.object({
  id: z.string(),
  org_id: z.string(),
  package_id: z.string(),
  version: z.string(),
  digest: DigestSchema,
  size_bytes: z.int(),
  origin: z.enum(["upload", "folder", "oci", "marketplace", "bundled", "npm", "workspace", "core"]),
  manifest: ManifestSchema,
  /** The parsed schema files that the manifest names, by path. */
  schemas: z.record(z.string(), z.json()),
  /** Of the plugin itself, which may be older than this gateway: decides who had a tool's name first. */
  first_installed_at: TimestampSchema.nullable().optional(),
  installed_at: TimestampSchema,
  installed_by: z.string(),
});

export type Package = z.infer<typeof PackageSchema>;
