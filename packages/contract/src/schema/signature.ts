/** Signatures of packages and the keys that are trusted to make them. */
import { z } from "zod";
import { SIGNATURE_FORMAT } from "../values/package-signature.ts";
import {
  DigestSchema,
  PackageIdSchema,
  PackagePathSchema,
  TimestampSchema,
  VersionSchema,
} from "./scalars.ts";

/** `ed25519:` and the first half of the SHA-256 of the public key. */
export const SigningKeyIdSchema = z
  .string()
  .regex(/^ed25519:[0-9a-f]{32}$/, "must be the id of an Ed25519 key");

/** The content of marketplace.signature.json. */
export const PackageSignatureSchema = z.strictObject({
  format: z.literal(SIGNATURE_FORMAT),
  package_id: PackageIdSchema,
  version: VersionSchema,
  digest: DigestSchema.describe("Of the package, not of its OCI manifest."),
  dependency_lock: z
    .array(z.strictObject({ path: PackagePathSchema, sha256: z.string().regex(/^[0-9a-f]{64}$/) }))
    .max(64)
    .describe("The lock files of the package."),
  key_id: SigningKeyIdSchema,
  signed_at: TimestampSchema,
  signature: z
    .string()
    .regex(/^[A-Za-z0-9+/]{86}==$/, "must be 64 bytes in base64")
    .describe("Ed25519 over all other fields."),
});

export type PackageSignature = z.infer<typeof PackageSignatureSchema>;
