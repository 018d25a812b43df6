/**
 * The ABI of kernel plugins (plug.abi): what a plugin module exports as `plugin`, and what the kernel hands it. Only
 * values and promises cross it, so that the same plugin runs in a process of its own or, trusted, inline.
 * The seed's snake_case method names are camelCase here: on_load is onLoad, health_check is healthCheck.
 */

import type { BusEvent, BusPayload } from "../schema/bus.ts";
import type { Json, JsonObject } from "../values/json.ts";
import type { MaybePromise } from "../values/maybe-promise.ts";
import type { PluginCategory } from "../vocabulary/bus-kinds.ts";
import type { EffectClass, KeyScope, Risk } from "../vocabulary/vocabulary.ts";

/** The key in package.json under which a package names its plugins: `{"<name>": {"category", "module"?}}`. */
export const PLUGIN_ENTRY_GROUP = "yaya.plugins.v1";

export interface KernelPlugin {
  /** Kebab-case, unique. */
  readonly name: string;
  readonly version: string;
  readonly category: PluginCategory;
  /** Names of plugins that have to be loaded first. */
  readonly requires?: readonly string[];
  /** Extension prefixes besides the own name; honoured for bundled plugins only. */
  readonly prefixes?: readonly string[];
  /** JSON Schema of `plugin.<ns>.*`, or for a provider of its instances' fields. */
  readonly configSchema?: JsonObject;

  /** A legacy tool: answers tool.call.request in onEvent by emitting tool.call.result. */
  readonly toolName?: string;
  readonly jsonSchema?: JsonObject;
  readonly description?: string;
  readonly requiresApproval?: boolean;
  readonly providerId?: string;
  readonly strategyId?: string;
  readonly adapterId?: string;
  readonly memory?: "short-term" | "long-term";
  /** An adapter's HTTP routes; each request comes to onRequest. */
  readonly routes?: readonly AdapterRoute[];

  /** Kinds, patterns that end in `.*`, or `*`. Asked once, before onLoad. */
  subscriptions(): readonly string[];
  /** Once, before any event. */
  onLoad?(ctx: PluginContext): MaybePromise<void>;
  /** Throw to surface a plugin.error. */
  onEvent?(event: BusEvent, ctx: PluginContext): MaybePromise<void>;
  /** At hot reload and shutdown; may come twice. */
  onUnload?(ctx: PluginContext): MaybePromise<void>;
  healthCheck?(ctx: PluginContext): MaybePromise<HealthReport>;
  onRequest?(request: AdapterRequest, ctx: PluginContext): MaybePromise<AdapterAnswer>;
}

export interface PluginContext {
  readonly name: string;
  /** A folder of the plugin's own under the data home; it exists. */
  readonly stateDir: string;
  readonly log: PluginLog;
  readonly providers: ProvidersView;
  /**
   * Id, time and source are the kernel's. Resolves when the event has its place in the session's queue. A tool has no
   * context of its call's scope: with the call's `as` the event belongs to the org and project that called.
   */
  emit<K extends string>(
    kind: K,
    payload: BusPayload<K>,
    options: { session_id: string; as?: string },
  ): Promise<{ id: string }>;
  /** `plugin.<ns>.*` without its prefix, secrets in the clear; fresh at every call. */
  config(): Promise<JsonObject>;
  /** Only plugins of category tool. A name that is taken is refused. */
  registerTool(tool: KernelTool): Promise<void>;
  /** A kernel service that the operator granted to this plugin; `as` is the `as` of the request or call that it serves. */
  service(name: string, args: JsonObject, as?: string): Promise<Json>;
}

export type PluginLogLevel = "debug" | "info" | "warn" | "error";
export type PluginLog = Record<PluginLogLevel, (fields: Record<string, unknown>, message: string) => void>;

/** One configured instance of a provider plugin (`providers.<id>.*`). */
export interface ProviderInstance {
  id: string;
  plugin: string;
  label: string;
  /** Everything but the two meta fields, by field name, secrets in the clear for the plugin that owns it. */
  config: Record<string, Json>;
}

/** Read-only, over the live configuration. Other plugins' instances come without their secrets. */
export interface ProvidersView {
  listInstances(): Promise<ProviderInstance[]>;
  instancesForPlugin(plugin: string): Promise<ProviderInstance[]>;
  getInstance(id: string): Promise<ProviderInstance | null>;
  activeId(): Promise<string | null>;
}

export const HEALTH_STATUSES = ["ok", "degraded", "failed"] as const;
export type HealthStatus = (typeof HEALTH_STATUSES)[number];

export interface HealthReport {
  status: HealthStatus;
  /** One line for the doctor's table. */
  summary: string;
  details?: { name: string; status: HealthStatus; message?: string }[];
}

/** What `AbortSignal` is; this room knows no platform. */
export interface StopSignal {
  readonly aborted: boolean;
  addEventListener(type: "abort", listener: () => void, options?: { once?: boolean }): void;
  removeEventListener(type: "abort", listener: () => void): void;
}

export interface KernelToolSpec {
  /** `[A-Za-z0-9_-]{1,64}`, as model vendors want it. */
  name: string;
  description: string;
  /** JSON Schema of an object; usable as an OpenAI function's parameters. */
  parameters: JsonObject;
  requires_approval?: boolean;
  effect_class?: EffectClass;
  timeout_ms?: number;
  /** The author's claim; the host's floor can raise it. */
  risk?: Risk;
  category?: string;
  /** Not shown to models until tool_search has found it. */
  deferred?: boolean;
}

export interface KernelTool extends KernelToolSpec {
  run(args: JsonObject, call: KernelToolCall): MaybePromise<ToolReturn>;
  /** A headline for the approval prompt, cut at 80 characters. */
  approvalBrief?(args: JsonObject): MaybePromise<string>;
}

export interface KernelToolCall {
  /** The model's id of the call where a model made it, else the execution's. */
  id: string;
  invocation_id: string;
  session_id: string | null;
  deadline_at: string;
  signal: StopSignal;
  /** Hands to `ctx.service` on whose behalf it is asked; worthless once the call has ended. */
  as: string;
  progress(event: JsonObject & { type: string }): void;
}

export type DisplayBlock =
  | { kind: "text"; text: string }
  | { kind: "markdown"; markdown: string }
  | { kind: "json"; data: Json };

export const TOOL_ERROR_KINDS = ["validation", "timeout", "rejected", "crashed", "internal"] as const;
export type ToolErrorKind = (typeof TOOL_ERROR_KINDS)[number];
export const TOOL_BRIEF_LENGTH = 80;

export interface ToolOk {
  ok: true;
  brief: string;
  display: DisplayBlock;
}
export interface ToolError {
  ok: false;
  kind: ToolErrorKind;
  brief: string;
  display: DisplayBlock;
}
export type ToolReturn = ToolOk | ToolError;

export interface AdapterRoute {
  method: "GET" | "POST" | "PUT" | "PATCH" | "DELETE";
  /** Below `/x/<plugin>`; a plugin with the operator's grant may also use `/api/…`. `{name}` is a parameter. */
  path: string;
  summary: string;
  /** What an API key needs. */
  scope: KeyScope;
  /** JSON Schema of the body, for the OpenAPI document. */
  body?: JsonObject;
  responses?: Record<number, string>;
}

/** Values in. */
export interface AdapterRequest {
  /** `GET /api/config/{key}`. */
  route: string;
  params: Record<string, string>;
  query: Record<string, string>;
  body: Json;
  /** Whom services act for; worthless once the request is answered. */
  as: string;
}

/** Values out. No body is an empty answer. */
export interface AdapterAnswer {
  status: number;
  body?: Json;
  headers?: Record<string, string>;
}

/** A plugin as package.json describes it, read without executing anything (plug.trust). */
export interface PluginEntry {
  name: string;
  version: string;
  category: PluginCategory;
  origin: PluginOrigin;
  /** The npm package's name, or the folder for a local one. */
  source: string;
  dir: string;
  /** Absolute path of the module. */
  module: string;
  /** When it was first put there, where that is known: of two plugins with one tool name the older has it. */
  installed_at?: string;
}

export const PLUGIN_ORIGINS = ["bundled", "installed", "local"] as const;
export type PluginOrigin = (typeof PLUGIN_ORIGINS)[number];

export const PLUGIN_STATUSES = ["loaded", "unloading", "failed", "unloaded", "disabled"] as const;
export type PluginStatus = (typeof PLUGIN_STATUSES)[number];

/** Where `plugin.<ns>.*` lies for a plugin: dashes become underscores. */
export function pluginNamespace(name: string): string {
  return name.replaceAll("-", "_");
}
