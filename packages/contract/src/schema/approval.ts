import { z } from "zod";
import { ANSWER_COVERAGES, APPROVAL_RESPONSES, APPROVAL_STATUSES, RISKS } from "../vocabulary/vocabulary.ts";
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
  /** The exact arguments of the call. */
  input: JsonValueSchema,
  /**
   * sha256 over everything that determines the call: tool, version, package digest, definition, arguments, binding,
   * effective config, secret versions, sign-in, grant and destination. An answer is valid only for this digest.
   */
  digest: z.string(),
  /** The approval that this one replaces, because the call has changed since. */
  replaces: z.string().nullable(),
  /** Names, never values, of the changed parts: `config.region`, `secret.token`, `package_version`. */
  changed: z.array(z.string()),
  brief: z.string(),
  reason: z.string(),
  risk: z.enum(RISKS),
  /** The further calls that an answer may cover. Checked again when the answer arrives. */
  may_cover: z.object({
    session: z.array(z.enum(ANSWER_COVERAGES)).describe("For approve_for_session."),
    always: z.array(z.enum(ANSWER_COVERAGES)).describe("For approve_always."),
  }),
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
  covers: z
    .enum(ANSWER_COVERAGES)
    .optional()
    .describe(
      "What approve_for_session (default: arguments; or tool) and approve_always (default: tool; or arguments, server) cover.",
    ),
  feedback: z.string().max(2000).optional(),
  /** If sent, must equal the approval's digest, which proves what the client showed. */
  digest: z.string().optional(),
});

/** A "for this session" answer that is still valid. */
export const ApprovalGrantSchema = z.object({
  id: z.string(),
  session_id: z.string(),
  org_id: z.string(),
  project_id: z.string().nullable(),
  tool: z.string(),
  covers: z.enum(["arguments", "tool"]),
  digest: z.string(),
  /** The highest risk of the calls that the answer covers. */
  max_risk: z.enum(RISKS),
  /** The key, admin token or adapter whose calls the answer covers; other callers of the session are not covered. */
  granted_to: z.string(),
  granted_by: z.string(),
  granted_at: TimestampSchema,
});

export type Approval = z.infer<typeof ApprovalSchema>;
export type ApprovalAnswer = z.infer<typeof ApprovalAnswerSchema>;
export type ApprovalGrant = z.infer<typeof ApprovalGrantSchema>;
