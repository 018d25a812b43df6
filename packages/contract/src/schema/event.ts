import { z } from "zod";
import { ERROR_CODES, type ErrorCode } from "../errors/error-codes.ts";
import { SEMANTIC_EVENTS } from "../vocabulary/vocabulary.ts";
import { JsonObjectSchema, TimestampSchema } from "./scalars.ts";

/** A semantic event, as delivered to hooks and SSE clients. */
export const SemanticEventSchema = z.object({
  id: z.string(),
  seq: z.int(),
  type: z.enum(SEMANTIC_EVENTS),
  org_id: z.string(),
  project_id: z.string().nullable(),
  occurred_at: TimestampSchema,
  subject: z.object({ kind: z.string(), id: z.string() }),
  summary: JsonObjectSchema,
  /** The session, chain and run that the event belongs to, and the trace of the work that caused it. */
  session_id: z.string().optional(),
  chain_id: z.string().optional(),
  run_id: z.string().optional(),
  trace_id: z.string().optional(),
});

export const ErrorEnvelopeSchema = z.object({
  error: z.object({
    code: z.enum(Object.keys(ERROR_CODES) as [ErrorCode, ...ErrorCode[]]),
    message: z.string(),
    retryable: z.boolean(),
    details: JsonObjectSchema.optional(),
    request_id: z.string(),
    doc_url: z.string(),
  }),
  detail: z.string().optional().describe("The same message, only on routes under /api."),
});

export type SemanticEvent = z.infer<typeof SemanticEventSchema>;
export type ErrorEnvelope = z.infer<typeof ErrorEnvelopeSchema>;
