import { z } from "zod";
import { ManifestSchema } from "./manifest.ts";
import { ProvenanceSchema } from "./provenance.ts";
import { DigestSchema, JsonObjectSchema, TimestampSchema } from "./scalars.ts";
import { SignatureStateSchema } from "./signature.ts";

export const PackageSchema = z.object({
  id: z.string(),
  org_id: z.string(),
  package_id: z.string(),
  version: z.string(),
  digest: DigestSchema,
  size_bytes: z.int(),
  origin: z.enum([
    "upload",
    "folder",
    "oci",
    "marketplace",
    "bundled",
    "npm",
    "pypi",
    "image",
    "workspace",
    "core",
  ]),
  /** Where a package of the origin `oci` or `marketplace` came from. */
  oci: z
    .object({
      /** Null for an image layout. */
      reference: z.string().nullable(),
      manifest_digest: DigestSchema,
    })
    .optional(),
  marketplace: z
    .string()
    .optional()
    .describe("The id of the marketplace entry that the package was installed from."),
  signature: SignatureStateSchema.optional(),
  /** Only for packages of the origin `npm`. */
  provenance: ProvenanceSchema.optional(),
  manifest: ManifestSchema,
  /** The parsed schema files of the manifest, keyed by path. */
  schemas: z.record(z.string(), z.json()),
  /**
   * When the plugin was first installed, possibly before this gateway existed. If two plugins have a tool of the same
   * name, the older one keeps it.
   */
  first_installed_at: TimestampSchema.nullable().optional(),
  installed_at: TimestampSchema,
  installed_by: z.string(),
});

/** A part that cannot be used; the other parts are installed without it. */
export const LeftOutSchema = z.object({
  kind: z.enum(["server", "skill"]),
  name: z.string(),
  reason: z.string(),
  fix: z.string().nullable(),
});

/** The result of installing an Agent Plugins folder: its packages, each with the request body that binds it. */
export const AgentPluginInstalledSchema = z.object({
  plugin: z.object({ name: z.string(), version: z.string() }),
  packages: z.array(
    z.object({
      package: PackageSchema,
      /** False if the same bytes were already installed. */
      created: z.boolean(),
      /** The body for `POST /v1/plugin-bindings`. */
      binding: z.object({
        package_id: z.string(),
        package_version: z.string(),
        export_id: z.string(),
        config: JsonObjectSchema.optional(),
        policy: z.object({ secret_env: z.record(z.string(), z.string()).optional() }).optional(),
      }),
    }),
  ),
  left_out: z.array(LeftOutSchema),
  notes: z.array(z.string()),
});

export type AgentPluginInstalled = z.infer<typeof AgentPluginInstalledSchema>;
export type LeftOut = z.infer<typeof LeftOutSchema>;
export type Package = z.infer<typeof PackageSchema>;
