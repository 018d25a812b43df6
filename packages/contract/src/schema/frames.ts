/**
 * The frames of the three dialects: `Vai…` for vai.rpc.v1, `Side…` for rterm.plugin.v1 and `Rpc…` for JSON-RPC. The
 * wire module checks incoming frames by hand for speed; a property test keeps its checks and these schemas in
 * agreement.
 */
import { z } from "zod";
import { DELEGATION_SCOPES, TERMINAL_STATUSES } from "../vocabulary/vocabulary.ts";
import { GrantSchema } from "./grant.ts";
import { JsonObjectSchema, JsonValueSchema, TimestampSchema } from "./scalars.ts";

const protocol = z.literal("vai.rpc.v1");
const wire_error = z.object({ code: z.string().min(1), message: z.string() });

export const ContextSchema = z.object({
  invocation_id: z.string(),
  trace_id: z.string(),
  org_id: z.string(),
  project_id: z.string().optional(),
  session_id: z.string().optional(),
  chain_id: z.string().optional(),
  run_id: z.string().optional(),
  deadline_at: TimestampSchema,
  /** Whether a person watches the session and can answer questions. */
  interactive: z.boolean().optional(),
  scratch_dir: z.string().optional(),
  gateway: z.object({
    base_url: z.string(),
    delegation_token: z.string().optional(),
    scopes: z.array(z.enum(DELEGATION_SCOPES)),
  }),
  config: JsonObjectSchema,
  secrets: z.record(z.string(), z.string()),
  grant: GrantSchema,
});

export const VaiHostHelloSchema = z.object({
  protocol,
  type: z.literal("hello"),
  role: z.literal("host"),
  host: z.object({ name: z.string(), version: z.string() }),
});
export const VaiPluginHelloSchema = z.object({
  protocol,
  type: z.literal("hello"),
  role: z.literal("plugin"),
  plugin: z.object({ package_id: z.string(), version: z.string() }),
});
export const VaiRequestSchema = z.object({
  protocol,
  type: z.literal("request"),
  id: z.string().min(1),
  op: z.enum(["tool.invoke", "hook.handle", "compactor.compact", "harness.run"]),
  body: z.looseObject({ export_id: z.string(), context: ContextSchema }),
});
export const VaiEventSchema = z.object({
  protocol,
  type: z.literal("event"),
  request_id: z.string().min(1),
  event: z.looseObject({ type: z.string().min(1) }),
});
export const VaiOkResponseSchema = z.object({
  protocol,
  type: z.literal("response"),
  id: z.string().min(1),
  ok: z.literal(true),
  body: z.looseObject({ status: z.enum([...TERMINAL_STATUSES, "ack"]), result: JsonValueSchema.optional() }),
  /** Absent or null, because a successful response has no error. */
  error: z.null().optional(),
});
export const VaiErrorResponseSchema = z.object({
  protocol,
  type: z.literal("response"),
  id: z.string().min(1),
  ok: z.literal(false),
  error: wire_error,
});
export const VaiCancelSchema = z.object({
  protocol,
  type: z.literal("cancel"),
  request_id: z.string().min(1),
  reason: z.string(),
});
export const VaiShutdownSchema = z.object({ protocol, type: z.literal("shutdown") });

export const VaiFrameSchema = z.union([
  VaiHostHelloSchema,
  VaiPluginHelloSchema,
  VaiRequestSchema,
  VaiEventSchema,
  VaiOkResponseSchema,
  VaiErrorResponseSchema,
  VaiCancelSchema,
  VaiShutdownSchema,
]);

export const SideManifestSchema = z.object({
  plugin_id: z.string().min(1),
  plugin_version: z.string().min(1),
  protocol_version: z.string(),
  exposed_tools: z.array(z.string().min(1)),
  capabilities: z.array(z.string()).optional(),
});
export const SideHandshakeRequestSchema = z.object({
  type: z.literal("handshake"),
  protocol_version: z.literal("rterm.plugin.v1"),
});
export const SideHandshakeResponseSchema = z.object({
  /** Optional, because the published protocol requires only one line with a manifest. */
  type: z.enum(["handshake", "handshake_response"]).optional(),
  manifest: SideManifestSchema,
});
export const SideRequestSchema = z.object({
  type: z.literal("request"),
  request_id: z.string().min(1),
  tool_name: z.string().min(1),
  context: ContextSchema,
  input: JsonValueSchema,
});
export const SideResponseSchema = z.object({
  type: z.literal("response"),
  request_id: z.string().min(1),
  status: z.enum(["ok", "error"]),
  output: JsonValueSchema.optional(),
  error: wire_error.optional(),
  metadata: JsonObjectSchema.optional(),
});

const rpc_id = z.union([z.string(), z.number(), z.null()]);
export const RpcRequestSchema = z.object({
  jsonrpc: z.literal("2.0"),
  id: rpc_id.optional(),
  method: z.string(),
  params: z.union([JsonObjectSchema, z.array(JsonValueSchema)]).optional(),
});
export const RpcResponseSchema = z.object({
  jsonrpc: z.literal("2.0"),
  id: rpc_id,
  result: JsonValueSchema.optional(),
  error: z.object({ code: z.int(), message: z.string(), data: JsonValueSchema.optional() }).optional(),
});

export type InvocationContext = z.infer<typeof ContextSchema>;
export type VaiHostHello = z.infer<typeof VaiHostHelloSchema>;
export type VaiPluginHello = z.infer<typeof VaiPluginHelloSchema>;
export type VaiRequest = z.infer<typeof VaiRequestSchema>;
export type VaiEvent = z.infer<typeof VaiEventSchema>;
export type VaiOkResponse = z.infer<typeof VaiOkResponseSchema>;
export type VaiErrorResponse = z.infer<typeof VaiErrorResponseSchema>;
export type VaiResponse = VaiOkResponse | VaiErrorResponse;
export type VaiCancel = z.infer<typeof VaiCancelSchema>;
export type VaiShutdown = z.infer<typeof VaiShutdownSchema>;
export type VaiFrame = z.infer<typeof VaiFrameSchema>;
export type SideManifest = z.infer<typeof SideManifestSchema>;
export type SideHandshakeResponse = z.infer<typeof SideHandshakeResponseSchema>;
export type SideRequest = z.infer<typeof SideRequestSchema>;
export type SideResponse = z.infer<typeof SideResponseSchema>;
export type RpcRequest = z.infer<typeof RpcRequestSchema>;
export type RpcResponse = z.infer<typeof RpcResponseSchema>;
