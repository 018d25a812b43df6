import { z } from "zod";
import { APPROVAL_RESPONSES, APPROVAL_STATUSES, RISKS } from "../vocabulary/vocabulary.ts";
import { JsonValueSchema, TimestampSchema } from "./scalars.ts";

export const ApprovalSchema = z.object({
  id: z.string(),
  invocation_id: z.string(),
  org_id: z.string(),
  project_id: z.string().nullable(),
  session_id: z.string().nullable(),
  tool: z.string(),
  package_id: z.string(),
  package_version: z.string(),
  /** The very arguments that would run. */
  input: JsonValueSchema,
  /**
   * sha256 over all that decides what would happen: tool, version, package digest, definition, arguments, binding,
   * effective config, secret versions, sign-in, grant and destination. An answer holds for this alone.
   */
  digest: z.string(),
  /** The question that this one takes the place of, because what it covered has changed since. */
  replaces: z.string().nullable(),
  /** Which parts changed, by name and never by value: `config.region`, `secret.token`, `package_version`. */
  changed: z.array(z.string()),
  brief: z.string(),
  reason: z.string(),
  risk: z.enum(RISKS),
  status: z.enum(APPROVAL_STATUSES),
  response: z.enum(APPROVAL_RESPONSES).nullable(),
  feedback: z.string().nullable(),
  answered_by: z.string().nullable(),
  durable: z.boolean(),
  requested_at: TimestampSchema,
  expires_at: TimestampSchema,
  resolved_at: TimestampSchema.nullable(),
});

export const ApprovalAnswerSchema = z.strictObject({
  response: z.enum(APPROVAL_RESPONSES),
  feedback: z.string().max(2000).optional(),
  /** When sent, it must equal the approval's digest: the client proves what it showed. */
  digest: z.string().optional(),
});

/** One "for this session" answer that still holds. */
export const ApprovalGrantSchema = z.object({
  id: z.string(),
  session_id: z.string(),
  org_id: z.string(),
  project_id: z.string().nullable(),
  tool: z.string(),
  digest: z.string(),
  /** Whose calls it serves: the key, the admin token or the adapter that asked. Nobody else who names the session. */
  granted_to: z.string(),
  granted_by: z.string(),
  granted_at: TimestampSchema,
});

export type Approval = z.infer<typeof ApprovalSchema>;
export type ApprovalAnswer = z.infer<typeof ApprovalAnswerSchema>;
export type ApprovalGrant = z.infer<typeof ApprovalGrantSchema>;
