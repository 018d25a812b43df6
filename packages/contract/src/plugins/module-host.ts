/**
 * The protocol between the gateway and a kernel plugin in its own process: JSON-RPC 2.0, one message per line. The
 * gateway starts with `load`; the process exits when its stdin ends. Errors from the plugin include their stack trace.
 */

import { BackplaneError } from "../errors/error.ts";
import { isErrorCode } from "../errors/error-codes.ts";
import type { BusEvent } from "../schema/bus.ts";
import type { Json, JsonObject } from "../values/json.ts";
import type {
  AdapterRequest,
  AdapterResponse,
  HealthReport,
  KernelPlugin,
  KernelToolCall,
  KernelToolSpec,
  PluginLogLevel,
  ProviderInstance,
  ToolReturn,
} from "./kernel-plugin.ts";

export const PLUGIN_METHODS = ["onLoad", "onEvent", "onUnload", "healthCheck", "onRequest"] as const;
export type PluginMethod = (typeof PLUGIN_METHODS)[number];

/** The fields of a plugin that are values and not methods. Other fields of the object are not sent. */
export const PLUGIN_FIELDS = [
  "name",
  "version",
  "category",
  "requires",
  "prefixes",
  "configSchema",
  "toolName",
  "jsonSchema",
  "description",
  "requiresApproval",
  "providerId",
  "protocols",
  "strategyId",
  "adapterId",
  "memory",
  "routes",
] as const satisfies (keyof KernelPlugin)[];

/** The fields of a tool that are values. Listed by name, because a tool may be an instance of a class. */
export const KERNEL_TOOL_FIELDS = [
  "name",
  "description",
  "parameters",
  "requires_approval",
  "effect_class",
  "recoverable",
  "timeout_ms",
  "risk",
  "category",
  "deferred",
] as const satisfies (keyof KernelToolSpec)[];

/** A plugin as it is sent to the gateway: its value fields, and the methods that it has. */
export interface PluginDescription {
  fields: Omit<KernelPlugin, PluginMethod | "subscriptions">;
  subscriptions: string[];
  methods: PluginMethod[];
}

/** A context as it is passed to the plugin, whose requests refer to it by `id`. */
export interface ContextRef {
  id: number;
  name: string;
  state_dir: string;
}

export interface HostedToolCall extends Omit<KernelToolCall, "signal" | "progress"> {
  call_id: number;
}

/** Gateway to plugin: parameters and result of each method. `cancel` is a notification. */
export interface ModuleHostMethods {
  load: [params: { module: string; name: string }, result: null];
  describe: [params: Record<string, never>, result: PluginDescription];
  onLoad: [params: { ctx: ContextRef }, result: null];
  event: [params: { event: BusEvent; ctx: ContextRef }, result: null];
  unload: [params: { ctx: ContextRef }, result: null];
  health: [params: { ctx: ContextRef }, result: HealthReport];
  request: [params: { request: AdapterRequest; ctx: ContextRef }, result: AdapterResponse];
  tool: [params: { tool: number; args: JsonObject; call: HostedToolCall }, result: ToolReturn];
  brief: [params: { tool: number; args: JsonObject }, result: string];
  preApprove: [params: { tool: number; args: JsonObject }, result: boolean];
  cancel: [params: { call_id: number }, result: null];
}

/** Plugin to gateway. `log` and `progress` are notifications; `ctx` is a ContextRef's id. */
export interface ModuleContextMethods {
  emit: [
    params: { ctx: number; kind: string; payload: JsonObject; session_id: string; as?: string },
    result: { id: string },
  ];
  log: [params: { ctx: number; level: PluginLogLevel; fields: JsonObject; message: string }, result: null];
  config: [params: { ctx: number }, result: JsonObject];
  "providers.list": [params: { ctx: number }, result: ProviderInstance[]];
  "providers.for_plugin": [params: { ctx: number; plugin: string }, result: ProviderInstance[]];
  "providers.get": [params: { ctx: number; id: string }, result: ProviderInstance | null];
  "providers.active": [params: { ctx: number }, result: string | null];
  /** `brief` and `pre_approve` say which optional methods the tool has. */
  registerTool: [
    params: { ctx: number; tool: number; spec: KernelToolSpec; brief: boolean; pre_approve: boolean },
    result: null,
  ];
  service: [params: { ctx: number; name: string; args: JsonObject; as?: string }, result: Json];
  progress: [params: { call_id: number; event: JsonObject & { type: string } }, result: null];
}

/** The JSON-RPC code of an error that is described in its `data`. */
export const THROWN_ERROR = -32001;

export interface SerializedError {
  name: string;
  message: string;
  stack?: string;
  code?: string;
  details?: JsonObject;
  fix?: string;
}

export function serializeError(error: unknown, trace: "with trace" | "without trace"): SerializedError {
  if (!isErrorLike(error)) return { name: "Error", message: `thrown: ${textOf(error)}` };
  const value: SerializedError = {
    name: typeof error.name === "string" ? error.name : "Error",
    message: error.message,
  };
  if (trace === "with trace" && typeof error.stack === "string") value.stack = error.stack;
  if (typeof error.code === "string") value.code = error.code;
  if (typeof error.fix === "string") value.fix = error.fix;
  const details = toJsonObject(error.details);
  if (details !== undefined) value.details = details;
  return value;
}

/** Restores a BackplaneError with its code; any other error keeps its name, message, code and stack. */
export function deserializeError(value: SerializedError): Error {
  const { code, details, fix, message, name, stack } = value;
  const error = isErrorCode(code)
    ? new BackplaneError(code, message, { ...(details && { details }), ...(fix && { fix }) })
    : Object.assign(new Error(message), code === undefined ? {} : { code });
  if (error.name !== name) Object.defineProperty(error, "name", { value: name, configurable: true });
  if (stack !== undefined) error.stack = stack;
  return error;
}

interface ErrorLike {
  name?: unknown;
  message: string;
  stack?: unknown;
  code?: unknown;
  details?: unknown;
  fix?: unknown;
}

/** Not `instanceof`, because an error may come from another realm. */
function isErrorLike(error: unknown): error is ErrorLike {
  return (
    typeof error === "object" &&
    error !== null &&
    typeof (error as { message?: unknown }).message === "string"
  );
}

function textOf(value: unknown): string {
  if (typeof value === "string") return value;
  try {
    return JSON.stringify(value) ?? String(value);
  } catch {
    return typeof value;
  }
}

function toJsonObject(details: unknown): JsonObject | undefined {
  if (typeof details !== "object" || details === null) return undefined;
  try {
    return JSON.parse(JSON.stringify(details)) as JsonObject;
  } catch {
    return undefined;
  }
}
