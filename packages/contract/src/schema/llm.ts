/** The model endpoints: records of calls, and the limits of keys and projects. */
import { z } from "zod";
import { LLM_CALL_STATUSES, LLM_PROTOCOLS } from "../vocabulary/vocabulary.ts";
import { TimestampSchema } from "./scalars.ts";

const limit = z.int().min(0).max(Number.MAX_SAFE_INTEGER);

/** Limits on calls to the model endpoints. Minutes, days and months are those of UTC. */
export const LlmBudgetSchema = z.strictObject({
  requests_per_minute: limit.optional(),
  requests_per_day: limit.optional(),
  tokens_per_day: limit
    .optional()
    .describe("Input and output together; running calls are included with an estimate."),
  tokens_per_month: limit.optional(),
});

export const LlmKeyLimitsSchema = LlmBudgetSchema.extend({
  models: z
    .array(
      z
        .string()
        .min(1)
        .max(256)
        .regex(/^[^\s\p{C}]+$/u),
    )
    .min(1)
    .max(64)
    .optional()
    .describe(
      "The models that the key may use, as INSTANCE/MODEL; `*` matches any characters. If absent, all models are allowed.",
    ),
});

const count = z.int().min(0);

export const LlmUsageSchema = z.object({
  input_other: count.describe(
    "Input tokens that were neither read from the vendor's cache nor written to it.",
  ),
  input_cache_read: count,
  input_cache_creation: count,
  output: count,
  input: count,
  total: count,
});

/** One call to a model endpoint. The record is on disk before the provider is called. */
export const LlmCallSchema = z.object({
  id: z.string(),
  org_id: z.string(),
  project_id: z.string().nullable(),
  status: z.enum(LLM_CALL_STATUSES),
  protocol: z.enum(LLM_PROTOCOLS),
  operation: z.enum(["generate", "count_tokens"]),
  stream: z.boolean(),
  provider: z.string().describe("The provider instance."),
  model: z.string().describe("The model that was requested from the provider."),
  requested_model: z.string(),
  actor: z.string().describe("admin, a key, or the invocation of a delegated token."),
  key_id: z
    .string()
    .nullable()
    .describe("The key that made the call, directly or through a delegated token."),
  invocation_id: z.string().nullable().describe("The invocation whose delegated token made the call."),
  session_id: z.string().nullable(),
  run_id: z.string().nullable(),
  execution_id: z.string().nullable().describe("The harness execution."),
  started_at: TimestampSchema,
  first_part_ms: z
    .number()
    .nullable()
    .describe("Milliseconds from the record to the first part of the answer."),
  duration_ms: z.number().nullable(),
  usage: LlmUsageSchema.nullable(),
  stop_reason: z.string().nullable(),
  error: z.object({ code: z.string(), message: z.string(), status: z.int().nullable() }).nullable(),
});

export type LlmBudget = z.infer<typeof LlmBudgetSchema>;
export type LlmKeyLimits = z.infer<typeof LlmKeyLimitsSchema>;
export type LlmCall = z.infer<typeof LlmCallSchema>;
