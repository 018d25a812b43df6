import { z } from "zod";
import { RUN_STATUSES, RUN_TRIGGERS } from "../vocabulary/vocabulary.ts";
import { JsonObjectSchema, TimestampSchema } from "./scalars.ts";

export const RunErrorSchema = z.object({ code: z.string(), message: z.string() });

/** One turn of the agent loop on a chain, or one request to a harness. */
export const RunSchema = z.object({
  id: z.string(),
  org_id: z.string(),
  project_id: z.string().nullable(),
  workspace: z.string(),
  session_id: z.string(),
  chain_id: z.string(),
  parent_run_id: z.string().nullable(),
  /**
   * Shared by the run, its calls and sub-agents, and by the call that started it. Absent in runs of earlier versions.
   */
  trace_id: z.string().optional(),
  trigger: z.enum(RUN_TRIGGERS),
  status: z.enum(RUN_STATUSES),
  strategy: z.string(),
  /** Set for the run of a harness: the call that executes it and the id of the execution. */
  harness: z
    .object({ execution_id: z.string(), invocation_id: z.string(), export_id: z.string() })
    .optional(),
  /** The entry id of the message that began the run. For a run without a message, the id of the next entry. */
  first_entry_id: z.int(),
  input: z.object({ text: z.string(), attachments: z.array(JsonObjectSchema).optional() }),
  output: z.object({ content: z.string(), entry_id: z.int() }).nullable(),
  error: RunErrorSchema.nullable(),
  usage: z
    .object({
      input_other: z.int(),
      input_cache_read: z.int(),
      input_cache_creation: z.int(),
      output: z.int(),
      input: z.int(),
      total: z.int(),
    })
    .describe(
      "The reported tokens of the model calls that `iterations` counts. A call without a reported usage, such as a cancelled one, adds none.",
    ),
  iterations: z
    .int()
    .describe(
      "The number of model calls: those of the run's own loop, and the finished calls to the model endpoints with a delegated token of the run, its harness or its tools. Child runs, which a harness or a sub-agent starts, count their own calls.",
    ),
  channel: z
    .string()
    .optional()
    .describe("How the message or request came in: api, ws, mcp, or the plugin that published the message."),
  /** How many times a gateway resumed the run after a crash. */
  resumed: z.int().optional(),
  requested_by: z.string(),
  started_at: TimestampSchema,
  ended_at: TimestampSchema.nullable(),
});

export type Run = z.infer<typeof RunSchema>;
