/** Secrets, API keys and the audit log. */
import { z } from "zod";
import { KEY_SCOPES, ROLES } from "../vocabulary/vocabulary.ts";
import { LlmKeyLimitsSchema } from "./llm.ts";
import { JsonObjectSchema, OrgIdSchema, ProjectIdSchema, TimestampSchema } from "./scalars.ts";

export const SecretSchema = z.object({
  name: z.string(),
  org_id: z.string(),
  project_id: z
    .string()
    .nullable()
    .describe(
      "The project that stored the secret and may use and change it; null for the whole organization.",
    ),
  ref: z.string(),
  last4: z.string().describe("**** for values of 8 characters or fewer"),
  version: z.int(),
  used_by: z.array(z.string()),
  created_at: TimestampSchema,
  updated_at: TimestampSchema,
});
export const SecretPutSchema = z.strictObject({
  value: z.string().min(1, "a secret must not be empty").max(65_536),
});

export const SecretKeyRotateSchema = z.strictObject({
  /**
   * False seals everything with the newest existing key; use it after an interrupted rotation or after adding a key by
   * hand.
   */
  new_key: z.boolean().default(true),
});
export const SecretKeyRotationSchema = z.object({
  key_id: z.string().describe("the key that seals new secrets"),
  secrets: z.int().describe("number of secrets that were sealed with the current key"),
  config_values: z.int(),
  sign_ins: z.int(),
  unreadable: z
    .array(z.object({ kind: z.enum(["secret", "config", "sign_in"]), org_id: z.string(), name: z.string() }))
    .describe("secrets, configuration values and sign-ins that could not be decrypted and were not changed"),
  unused_keys: z.array(z.string()).describe("keys that no longer seal any value and can be removed"),
});

const LISTED_TOOLS_TEXT =
  "The tools that are listed for the key. `*` matches any characters, and `@NAME` stands for a profile of the policy. Other tools are found by search. If absent, all tools are listed.";

/** A tool that a key lists, or `@NAME` for the tools of a profile. */
const ListedToolSchema = z
  .string()
  .max(128)
  .regex(
    /^(?:@[a-z0-9][a-z0-9_-]*|[A-Za-z0-9_*-]+)$/,
    "write a tool name, with * for any characters, or @NAME of a tool profile",
  );

export const KeySchema = z.object({
  id: z.string(),
  name: z.string(),
  org_id: z.string(),
  project_id: z.string().nullable(),
  role: z.enum(ROLES),
  scopes: z.array(z.enum(KEY_SCOPES)),
  prefix: z.string(),
  created_at: TimestampSchema,
  expires_at: TimestampSchema.nullable(),
  revoked_at: TimestampSchema.nullable(),
  tools: z.array(z.string()).optional().describe(LISTED_TOOLS_TEXT),
  llm: LlmKeyLimitsSchema.optional().describe("Limits of the key at the model endpoints."),
});
export const KeyCreateSchema = z.strictObject({
  name: z.string().min(1).max(120),
  org_id: OrgIdSchema.optional(),
  project_id: ProjectIdSchema.nullable().optional(),
  role: z.enum(ROLES).default("user"),
  scopes: z.array(z.enum(KEY_SCOPES)).min(1, "specify at least one scope"),
  expires_at: TimestampSchema.optional(),
  tools: z.array(ListedToolSchema).min(1).max(64).optional().describe(LISTED_TOOLS_TEXT),
  llm: LlmKeyLimitsSchema.optional().describe("Limits of the key at the model endpoints."),
});

export const AuditEntrySchema = z.object({
  seq: z.int(),
  id: z.string(),
  at: TimestampSchema,
  org_id: z.string(),
  project_id: z.string().nullable(),
  actor: z.string(),
  action: z.string(),
  subject: z.string(),
  details: JsonObjectSchema,
  /** sha256 over the previous entry's hash and this entry, so that any change is detected. */
  hash: z.string(),
});

/** The result of verifying the audit log. */
export const AuditReportSchema = z.object({
  status: z.enum(["ok", "broken"]),
  /** Number of verified entries and the hash of the last one. */
  entries: z.int(),
  hash: z.string(),
  /** The entry recorded in the anchor outside the store. */
  anchor: z.object({ seq: z.int(), at: TimestampSchema }).nullable(),
  /** The last entry of the export. */
  export: z.object({ seq: z.int() }).nullable(),
  broken: z.object({ seq: z.int(), reason: z.string(), fix: z.string() }).nullable(),
});

export type Secret = z.infer<typeof SecretSchema>;
export type SecretKeyRotation = z.infer<typeof SecretKeyRotationSchema>;
export type ApiKey = z.infer<typeof KeySchema>;
export type KeyCreate = z.infer<typeof KeyCreateSchema>;
export type AuditEntry = z.infer<typeof AuditEntrySchema>;
export type AuditReport = z.infer<typeof AuditReportSchema>;
