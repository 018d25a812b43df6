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
  digest: DigestSchema.describe("The digest of the package, not of its OCI manifest."),
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

/** One package, all packages of a publisher, or all packages. */
const SignedPackagesSchema = z
  .string()
  .max(200)
  .regex(
    /^(?:\*|[a-z0-9][a-z0-9._-]*\/(?:\*|[a-z0-9][a-z0-9._-]*))$/,
    "must be PUBLISHER/NAME, with * for every name, or *",
  );

/** A public key that an organization trusts to sign packages. */
export const TrustedKeySchema = z.object({
  id: z.string(),
  org_id: z.string(),
  key_id: SigningKeyIdSchema,
  name: z.string(),
  public_key: z.string().describe("PEM"),
  packages: z
    .array(z.string())
    .describe("The packages that the key may sign: PUBLISHER/NAME, with * for every name, or *."),
  not_before: TimestampSchema.nullable(),
  not_after: TimestampSchema.nullable(),
  created_at: TimestampSchema,
  created_by: z.string(),
  revoked_at: TimestampSchema.nullable(),
  revoked_reason: z.string().nullable(),
});

const PERIOD_TEXT = "Null for no limit. By default null for a new key, and no change for a trusted one.";

export const TrustedKeyCreateSchema = z.strictObject({
  name: z.string().min(1).max(120),
  public_key: z.string().min(1).max(2_048).describe("An Ed25519 public key as PEM."),
  packages: z
    .array(SignedPackagesSchema)
    .min(1)
    .max(64)
    .optional()
    .describe("By default `*` for a new key, and no change for a trusted one."),
  not_before: TimestampSchema.nullable().optional().describe(PERIOD_TEXT),
  not_after: TimestampSchema.nullable().optional().describe(PERIOD_TEXT),
});

export const TrustedKeyRevokeSchema = z.strictObject({
  reason: z.string().min(1).max(300).optional(),
});

/**
 * The signature of an installed package. `revoked` and `expired` mean that it was verified but its key is no longer
 * valid.
 */
export const SignatureStateSchema = z.object({
  state: z.enum(["verified", "revoked", "expired", "unverified", "unsigned"]),
  key_id: z.string().nullable(),
  key_name: z.string().nullable(),
  signed_at: TimestampSchema.nullable(),
  /** The error code that the package would get where a signature is required. */
  reason: z.string().nullable(),
  /** Valid signatures by other keys. They count when the first key is revoked or expires. */
  further: z
    .array(z.object({ key_id: z.string(), key_name: z.string(), signed_at: TimestampSchema }))
    .optional(),
});

export type TrustedKey = z.infer<typeof TrustedKeySchema>;
export type TrustedKeyCreate = z.input<typeof TrustedKeyCreateSchema>;
export type SignatureState = z.infer<typeof SignatureStateSchema>;
export type PackageSignature = z.infer<typeof PackageSignatureSchema>;
