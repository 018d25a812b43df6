/** The input of a harness call as a caller sends it, and the checkpoint and the execution of a harness. */
import { z } from "zod";
import { HARNESS_LIMITS } from "../vocabulary/limits.ts";
import { HARNESS_MODES } from "../vocabulary/vocabulary.ts";
import { JsonObjectSchema, JsonValueSchema } from "./scalars.ts";

export const HarnessPolicySchema = z.strictObject({
  max_depth: z.int().min(0).max(HARNESS_LIMITS.max_depth.max).optional(),
  max_child_runs: z.int().min(0).max(HARNESS_LIMITS.max_child_runs.max).optional(),
  max_steps: z.int().min(0).max(HARNESS_LIMITS.max_steps.max).optional(),
  max_compactions: z.int().min(0).max(HARNESS_LIMITS.max_compactions.max).optional(),
  allow_compaction: z.boolean().optional(),
  /** The time limit for all attempts and resumes of the execution together. */
  max_time_ms: z
    .int()
    .min(1)
    .max(30 * 86_400_000)
    .optional(),
});

export const HarnessTriggerSchema = z.looseObject({
  type: z.string().min(1).max(64),
  input: z.array(z.looseObject({ type: z.string().min(1) })).optional(),
});

/** `execution_id` identifies the execution to resume; a new execution gets its id from the gateway. */
export const HarnessTargetSchema = z.strictObject({
  session_id: z.string().min(1).max(256).optional(),
  chain_id: z.string().min(1).max(128).optional(),
  execution_id: z.string().min(1).max(128).optional(),
});

export const HarnessInputSchema = z.strictObject({
  mode: z.enum(HARNESS_MODES).optional(),
  target: HarnessTargetSchema.optional(),
  trigger: HarnessTriggerSchema.optional(),
  policy: HarnessPolicySchema.optional(),
});

export const CheckpointSchema = z.object({
  kind: z.string().min(1).max(64),
  data: JsonValueSchema,
});

/** A harness execution: its limits, how much of them it has used, and the checkpoint at which it would resume. */
export const ExecutionSchema = z.object({
  id: z.string(),
  org_id: z.string(),
  project_id: z.string().nullable(),
  status: z.enum(["running", "succeeded", "failed", "cancelled", "retryable_failure"]),
  export_id: z.string(),
  binding_id: z.string(),
  /** The latest call of the harness; earlier ones were resumed. */
  invocation_id: z.string(),
  run_id: z.string().nullable(),
  target: z.object({
    session_id: z.string().optional(),
    chain_id: z.string().optional(),
    workspace: z.string().optional(),
  }),
  trigger: JsonObjectSchema,
  /** Includes the gateway's defaults for fields that the caller omitted. */
  policy: HarnessPolicySchema,
  used: z.object({ child_runs: z.int(), steps: z.int(), compactions: z.int() }),
  checkpoint: CheckpointSchema.nullable(),
  /** How many checkpoints were stored. */
  checkpoints: z.int(),
  /** The time at which the execution reaches `max_time_ms`; null if only the timeout of each call applies. */
  deadline_at: z.string().nullable(),
});

export type HarnessPolicy = z.infer<typeof HarnessPolicySchema>;
export type HarnessInput = z.infer<typeof HarnessInputSchema>;
export type HarnessCheckpoint = z.infer<typeof CheckpointSchema>;
export type Execution = z.infer<typeof ExecutionSchema>;
