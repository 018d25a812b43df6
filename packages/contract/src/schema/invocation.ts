import { z } from "zod";
import type { ContentBlock } from "../values/content-block.ts";
import {
  DELEGATION_SCOPES,
  EFFECT_CLASSES,
  EXECUTION_CLASSES,
  EXPORT_KINDS,
  INVOCATION_STATUSES,
  TERMINAL_STATUSES,
  TOOL_ERROR_KINDS,
} from "../vocabulary/vocabulary.ts";
import { GrantSchema } from "./grant.ts";
import {
  ExportIdSchema,
  JsonObjectSchema,
  JsonValueSchema,
  PackageIdSchema,
  TimestampSchema,
} from "./scalars.ts";

/** The request to call a binding, or an export that is bound in the caller's scope. */
export const InvokeBodySchema = z
  .strictObject({
    binding_id: z.string().max(64).optional(),
    package_id: PackageIdSchema.optional(),
    export_id: ExportIdSchema.optional(),
    input: JsonValueSchema.optional(),
    timeout_ms: z.int().min(1).max(86_400_000).optional(),
    session_id: z.string().min(1).max(256).optional(),
    chain_id: z.string().min(1).max(128).optional(),
    run_id: z.string().min(1).max(128).optional(),
    trace_id: z.string().min(1).max(128).optional(),
    /** Further restrictions by the caller, for agents that call on behalf of others. */
    narrow: z
      .strictObject({
        network: z.literal("none").optional(),
        allowed_domains: z.array(z.string()).optional(),
        filesystem: z.literal("none").optional(),
        secret_slots: z.array(z.string()).optional(),
        gateway_api_scopes: z.array(z.enum(DELEGATION_SCOPES)).optional(),
        /** Tools that the call and its nested calls may call. */
        tools: z.array(z.string()).optional(),
      })
      .optional(),
  })
  .refine((body) => body.binding_id !== undefined || body.export_id !== undefined, {
    message: "specify a binding_id or an export_id",
    path: ["export_id"],
  });

/** Only `type` is checked, because authors may use types and fields of their own. */
export const ContentBlockSchema = z
  .looseObject({ type: z.string().min(1) })
  .describe(
    "A block of content: `text` (text), `image` and `audio` (base64 data, mimeType), `resource` (resource: uri, mimeType, " +
      "text or blob), `resource_link` (uri, name), `file`, or a type that the author defines. A large block has a " +
      "reference instead: transport `artifact`, path, bytes, sha256 and invocation_id.",
  ) as unknown as z.ZodType<ContentBlock, ContentBlock>;

export const ToolResultSchema = z.object({
  content: z.array(ContentBlockSchema).default([]),
  structured_output: JsonValueSchema.optional(),
  is_error: z.boolean().default(false),
  retryable: z.boolean().default(false),
  /** A short status for watchers, such as "truncated". */
  status: z.string().optional(),
  /** Ends the turn with this result; the model is called again only after the next user message. */
  yield_to_user: z.boolean().optional(),
});

export const InvocationErrorSchema = z.object({
  code: z.string(),
  message: z.string(),
  details: JsonObjectSchema.optional(),
});

/** Why a tool call failed, for the model and for people. */
export const ToolFailureSchema = z.object({
  kind: z.enum([...TOOL_ERROR_KINDS, "not_found"]),
  /** An error code of the gateway; `plugin_failed` for an error that the plugin reported. */
  code: z.string(),
  /** The plugin's own error code. */
  plugin_code: z.string().optional(),
  retryable: z.boolean(),
  /** The end of the plugin's stderr, without secrets. */
  stderr: z.string().optional(),
});

/** The canonical result of a tool call, always written by the host. */
export const ToolResultBlockSchema = z.object({
  kind: z.literal("tool_result"),
  tool_execution_id: z.string(),
  tool: z.string(),
  is_error: z.boolean(),
  content: z.array(ContentBlockSchema),
  structured_output: JsonValueSchema.optional(),
  status: z.string().optional(),
  yield_to_user: z.boolean().optional(),
  /** Absent for a call that succeeded. */
  failure: ToolFailureSchema.optional(),
});

/** Connections denied to the call: the first ones in full, all of them counted. */
export const EgressRecordSchema = z.object({
  refused: z.int(),
  refusals: z.array(
    z.object({
      /** The requested host; empty if none was given. */
      host: z.string(),
      port: z.int(),
      reason: z.string(),
      message: z.string(),
      detail: z.string().optional(),
      at: TimestampSchema,
      /** How often this connection was refused, if more than once; `at` is then the first time. */
      count: z.int().optional(),
      /** Several calls shared the process, so any of them may have attempted the connection. */
      shared: z.literal(true).optional(),
    }),
  ),
});

/** The attempt with a version on trial whose process failed, before the previous version answered the call. */
const FallbackFromSchema = z.object({
  binding_id: z.string(),
  binding_generation: z.int(),
  package_version: z.string(),
  package_digest: z.string(),
  error: InvocationErrorSchema,
  stderr_tail: z.string().nullable(),
});

/** An attempt that was followed by another one. */
const EarlierAttemptSchema = z.object({
  started_at: TimestampSchema,
  /** Null if the gateway stopped during the attempt. */
  ended_at: TimestampSchema.nullable(),
  /** When the next attempt was recorded, after the pause between the two. */
  retried_at: TimestampSchema,
  /** fallback: the next attempt ran the previous version. recovery: it followed a restart of the gateway. */
  reason: z.enum(["retry", "fallback", "recovery"]),
  error: InvocationErrorSchema.omit({ details: true }),
});

export const InvocationSchema = z.object({
  id: z.string(),
  export_kind: z.enum(EXPORT_KINDS),
  export_id: z.string(),
  binding_id: z.string(),
  binding_generation: z.int(),
  package_id: z.string(),
  package_version: z.string(),
  package_digest: z.string(),
  class: z.enum(EXECUTION_CLASSES),
  effect_class: z.enum(EFFECT_CLASSES),
  status: z.enum(INVOCATION_STATUSES),
  org_id: z.string(),
  project_id: z.string().nullable(),
  session_id: z.string().nullable(),
  chain_id: z.string().nullable(),
  run_id: z.string().nullable(),
  trace_id: z.string(),
  /**
   * The id of this execution, constant across retries. The plugin receives it as tool_execution_id, delivery_id,
   * compaction_id or execution_id.
   */
  execution_id: z.string(),
  retry_count: z.int(),
  grant: GrantSchema.nullable(),
  input: JsonValueSchema,
  result: JsonValueSchema.nullable(),
  tool_result: ToolResultBlockSchema.nullable(),
  error: InvocationErrorSchema.nullable(),
  approval_id: z.string().nullable(),
  /** The allow rule, approval for the session or binding that let the call run without an approval of its own. */
  allowed_by: z.string().nullable(),
  timeout_ms: z.int(),
  /** Number of protocol violations that did not change the outcome. */
  violations: z.int(),
  stderr_tail: z.string().nullable(),
  /** Null if no connection was denied. */
  egress: EgressRecordSchema.nullable(),
  /** Present if the process of a version on trial failed; the other fields describe the version that answered. */
  fallback_from: FallbackFromSchema.optional(),
  /** Present if the call was retried: the attempts before the last one, oldest first, limited in number. */
  earlier_attempts: z.array(EarlierAttemptSchema).optional(),
  requested_by: z.string(),
  created_at: TimestampSchema,
  started_at: TimestampSchema.nullable(),
  ended_at: TimestampSchema.nullable(),
});

/** A frame or other output of a plugin process, without secrets. */
export const RecordedFrameSchema = z.object({
  at: TimestampSchema,
  from: z.enum(["host", "plugin"]),
  kind: z
    .enum(["frame", "stray_output", "stderr"])
    .describe("stray_output: text on stdout that is not a frame, which ends the connection."),
  text: z.string().describe("A long text is truncated."),
  invocation_id: z.string().nullable(),
});

export const FrameRecordingSchema = z.object({
  observable: z.boolean().describe("Whether the frames of the plugin's protocol can be recorded."),
  recording_until: TimestampSchema.nullable().describe("Null unless frames of the binding are recorded now."),
  items: z.array(RecordedFrameSchema),
});

/** A call of a trace, without its input and result. */
export const TraceSpanSchema = z.object({
  id: z.string(),
  parent_id: z.string().nullable().describe("The call that made this call."),
  run_id: z.string().nullable(),
  session_id: z.string().nullable(),
  export_kind: z.enum(EXPORT_KINDS),
  export_id: z.string(),
  package_id: z.string(),
  status: z.enum(INVOCATION_STATUSES),
  error_code: z.string().nullable(),
  retry_count: z.int(),
  created_at: TimestampSchema,
  started_at: TimestampSchema.nullable(),
  ended_at: TimestampSchema.nullable(),
});

export const InvocationEventSchema = z.object({
  seq: z.int(),
  at: TimestampSchema,
  event: z.looseObject({ type: z.string() }),
});

export const TerminalStatusSchema = z.enum(TERMINAL_STATUSES);

export type ToolFailure = z.infer<typeof ToolFailureSchema>;
export type InvokeBody = z.infer<typeof InvokeBodySchema>;
export type ToolResult = z.infer<typeof ToolResultSchema>;
export type ToolResultBlock = z.infer<typeof ToolResultBlockSchema>;
export type InvocationError = z.infer<typeof InvocationErrorSchema>;
export type EgressRecord = z.infer<typeof EgressRecordSchema>;
export type Invocation = z.infer<typeof InvocationSchema>;
export type RecordedFrame = z.infer<typeof RecordedFrameSchema>;
export type FrameRecording = z.infer<typeof FrameRecordingSchema>;
export type TraceSpan = z.infer<typeof TraceSpanSchema>;
export type EarlierAttempt = z.infer<typeof EarlierAttemptSchema>;
export type InvocationEvent = z.infer<typeof InvocationEventSchema>;
