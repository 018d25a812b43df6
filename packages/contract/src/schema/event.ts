import { z } from "zod";
import { ERROR_CODES, type ErrorCode } from "../errors/error-codes.ts";
import { DELIVERY_STATUSES, SEMANTIC_EVENTS } from "../vocabulary/vocabulary.ts";
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

const FilterValueSchema = z.union([z.string().max(256), z.number(), z.boolean(), z.null()]);

/** Fields of an event and the values that they must have. An event must match all of them. */
export const EventFilterSchema = z
  .record(
    z
      .string()
      .regex(
        /^(?:type|session_id|chain_id|run_id|subject\.(?:kind|id)|summary\.[a-z_]{1,64})$/,
        "use type, session_id, chain_id, run_id, subject.kind, subject.id or summary.FIELD",
      ),
    z.union([FilterValueSchema, z.array(FilterValueSchema).min(1).max(64)]),
  )
  .refine((filter) => Object.keys(filter).length <= 16, "use at most 16 fields");

/** One event for one hook. */
export const DeliverySchema = z.object({
  id: z.string().describe("The delivery_id that the hook receives; the same at every attempt."),
  org_id: z.string(),
  project_id: z.string().nullable(),
  binding_id: z.string(),
  status: z.enum(DELIVERY_STATUSES),
  attempt: z.int().describe("The number of attempts so far, including those of replays."),
  max_attempts: z.int(),
  next_attempt_at: TimestampSchema.nullable().describe("Null unless pending."),
  ended_at: TimestampSchema.nullable(),
  error: z
    .string()
    .nullable()
    .describe("The error of the last attempt. A delivered event has one if the hook returned failed."),
  invocation_id: z.string().nullable().describe("The call of the last attempt."),
  test: z.boolean().describe("True for a test delivery (`:test`), which no event caused."),
  event: JsonObjectSchema,
});

/**
 * The event of a test delivery. Without fields it is an event of a type that the hook subscribes to, with example
 * values.
 */
export const HookTestSchema = z.strictObject({
  type: z
    .enum(SEMANTIC_EVENTS)
    .optional()
    .describe("Defaults to the first type that the hook subscribes to."),
  summary: JsonObjectSchema.optional().describe("Replaces the example values."),
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
export type EventFilter = z.infer<typeof EventFilterSchema>;
export type Delivery = z.infer<typeof DeliverySchema>;
export type HookTest = z.infer<typeof HookTestSchema>;
export type ErrorEnvelope = z.infer<typeof ErrorEnvelopeSchema>;
