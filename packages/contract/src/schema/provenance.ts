/** The build of a package from the npm registry, proven by its Sigstore attestation. */
import { z } from "zod";
import { DigestSchema, TimestampSchema } from "./scalars.ts";

/** From the certificate that Sigstore issued to the build. A build cannot choose these values. */
export const ProvenanceBuildSchema = z.object({
  repository: z.string(),
  commit: z.string(),
  /** The branch or tag; null if the certificate names none. */
  ref: z.string().nullable(),
  /** The file that defines the build, without the branch or tag. */
  workflow: z.string(),
  /** The kind of machine, such as `github-hosted`; null if the certificate names none. */
  runner: z.string().nullable(),
  /** The identity provider of the build service. */
  issuer: z.string(),
});

/** The build of a package, as far as it was known at `checked_at`. */
export const ProvenanceSchema = z.object({
  state: z.enum(["verified", "none", "unavailable"]),
  /** Why the published provenance could not be read. */
  reason: z.string().nullable(),
  /** Null unless it is verified. */
  build: ProvenanceBuildSchema.nullable(),
  /** When the transparency log recorded the attestation; null unless it is verified. */
  logged_at: TimestampSchema.nullable(),
  checked_at: TimestampSchema,
  /** The keys and certificates that it was verified with; null unless it is verified. */
  trust_root: z
    .object({ name: z.string(), digest: DigestSchema.describe("The digest of the trusted_root.json.") })
    .nullable(),
});

export type ProvenanceBuild = z.infer<typeof ProvenanceBuildSchema>;
export type Provenance = z.infer<typeof ProvenanceSchema>;
