/**
 * The ABI of kernel plugins (plug.abi): the object that a module exports as `plugin`, and the context from the kernel.
 * Only values and promises cross it, so that the same plugin runs in its own process or, if trusted, inline. The
 * snake_case method names of the published protocol are camelCase here: on_load is onLoad, health_check is healthCheck.
 */

import type { BusEvent, BusPayload } from "../schema/bus.ts";
import type { Provenance } from "../schema/provenance.ts";
import type { ContentBlock } from "../values/content-block.ts";
import type { Json, JsonObject } from "../values/json.ts";
import type { MaybePromise } from "../values/maybe-promise.ts";
import type { PluginCategory } from "../vocabulary/bus-kinds.ts";
import type { EffectClass, KeyScope, LlmProtocol, Risk, ToolErrorKind } from "../vocabulary/vocabulary.ts";

/** The key in package.json under which a package lists its plugins: `{"<name>": {"category", "module"?}}`. */
export const PLUGIN_ENTRY_GROUP = "yaya.plugins.v1";

export interface KernelPlugin {
  /** Kebab-case, unique. */
  readonly name: string;
  readonly version: string;
  readonly category: PluginCategory;
  /** Names of plugins that must be loaded first. */
  readonly requires?: readonly string[];
  /** Prefixes of event kinds that the plugin may publish in addition to its own name; bundled plugins only. */
  readonly prefixes?: readonly string[];
  /** JSON Schema of `plugin.<ns>.*` or, for a provider, of the fields of its instances. */
  readonly configSchema?: JsonObject;

  /** A legacy tool: answers tool.call.request in onEvent by emitting tool.call.result. */
  readonly toolName?: string;
  readonly jsonSchema?: JsonObject;
  readonly description?: string;
  readonly requiresApproval?: boolean;
  readonly providerId?: string;
  /** The protocols of native requests that a provider accepts; an instance may accept only some of them. */
  readonly protocols?: readonly LlmProtocol[];
  readonly strategyId?: string;
  readonly adapterId?: string;
  readonly memory?: "short-term" | "long-term";
  /** HTTP routes of an adapter, handled by onRequest. */
  readonly routes?: readonly AdapterRoute[];

  /** Kinds, patterns that end in `.*`, or `*`. Called once, before onLoad. */
  subscriptions(): readonly string[];
  /** Called once, before any event. */
  onLoad?(ctx: PluginContext): MaybePromise<void>;
  /** A thrown error is published as plugin.error. */
  onEvent?(event: BusEvent, ctx: PluginContext): MaybePromise<void>;
  /** Called when the plugin is unloaded, possibly twice. */
  onUnload?(ctx: PluginContext): MaybePromise<void>;
  healthCheck?(ctx: PluginContext): MaybePromise<HealthReport>;
  onRequest?(request: AdapterRequest, ctx: PluginContext): MaybePromise<AdapterResponse>;
}

export interface PluginContext {
  readonly name: string;
  /** The plugin's own, existing data folder. */
  readonly stateDir: string;
  readonly log: PluginLog;
  readonly providers: ProvidersView;
  /**
   * The kernel sets id, time and source. Resolves when the event is in the session's queue. All calls of a tool share
   * one context, so pass the call's `as` to publish the event in the org and project of the caller.
   */
  emit<K extends string>(
    kind: K,
    payload: BusPayload<K>,
    options: { session_id: string; as?: string },
  ): Promise<{ id: string }>;
  /** The current values of `plugin.<ns>.*` without the prefix, secrets in the clear. */
  config(): Promise<JsonObject>;
  /** For plugins of category tool only. A name that is already registered is rejected. */
  registerTool(tool: KernelTool): Promise<void>;
  /** A kernel service that the operator allows; `as` is the `as` of the current request or call. */
  service(name: string, args: JsonObject, as?: string): Promise<Json>;
}

export type PluginLogLevel = "debug" | "info" | "warn" | "error";
export type PluginLog = Record<PluginLogLevel, (fields: Record<string, unknown>, message: string) => void>;

/** One configured instance of a provider plugin (`providers.<id>.*`). */
export interface ProviderInstance {
  id: string;
  plugin: string;
  label: string;
  /** All fields except `plugin` and `label`; secrets are in the clear for the owning plugin. */
  config: Record<string, Json>;
}

/** A read-only view of the live configuration. Instances of other plugins are returned without their secrets. */
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
  details?: HealthDetail[];
}

export interface HealthDetail {
  name: string;
  status: HealthStatus;
  message?: string;
  /** The configuration key to set, if that is the problem; the doctor shows the command. */
  config_key?: string;
}

/** The part of AbortSignal that is used here; this module is platform-independent. */
export interface StopSignal {
  readonly aborted: boolean;
  addEventListener(type: "abort", listener: () => void, options?: { once?: boolean }): void;
  removeEventListener(type: "abort", listener: () => void): void;
}

export interface KernelToolSpec {
  /** `[A-Za-z0-9_-]{1,64}`, as model vendors require. */
  name: string;
  description: string;
  /** JSON Schema of an object; usable as an OpenAI function's parameters. */
  parameters: JsonObject;
  requires_approval?: boolean;
  effect_class?: EffectClass;
  /**
   * A call that a crash interrupted runs again with the same ids, whatever its effect class. The tool then continues
   * the work of the interrupted call instead of repeating it.
   */
  recoverable?: boolean;
  timeout_ms?: number;
  /** Declared by the author; the host can raise it. */
  risk?: Risk;
  category?: string;
  /** Not offered to models until tool_search has found it. */
  deferred?: boolean;
}

export interface KernelTool extends KernelToolSpec {
  run(args: JsonObject, call: KernelToolCall): MaybePromise<ToolReturn>;
  /** A one-line description for the approval prompt, truncated to 80 characters. */
  approvalBrief?(args: JsonObject): MaybePromise<string>;
  /**
   * Called for each admitted call before approval is requested. Only `true` lets the call continue to the approval that
   * the policy requires, so a tool can deny its own calls but never allow them.
   */
  preApprove?(args: JsonObject): MaybePromise<boolean>;
}

export interface KernelToolCall {
  /** The model's id of the call, or the execution id if no model made the call. */
  id: string;
  invocation_id: string;
  session_id: string | null;
  deadline_at: string;
  signal: StopSignal;
  /** Identifies the caller to `ctx.service`; invalid after the call has ended. */
  as: string;
  progress(event: JsonObject & { type: string }): void;
}

export type DisplayBlock =
  | { kind: "text"; text: string }
  | { kind: "markdown"; markdown: string }
  | { kind: "json"; data: Json };

export const TOOL_BRIEF_LENGTH = 80;

export interface ToolOk {
  ok: true;
  brief: string;
  display: DisplayBlock;
  /** The content that the model receives instead of the display, such as images. */
  content?: ContentBlock[];
}
export interface ToolError {
  ok: false;
  kind: ToolErrorKind;
  brief: string;
  display: DisplayBlock;
  content?: ContentBlock[];
}
export type ToolReturn = ToolOk | ToolError;

export interface AdapterRoute {
  method: "GET" | "POST" | "PUT" | "PATCH" | "DELETE";
  /** A path below `/x/<plugin>`, or below `/api/` if the operator allows it. `{name}` is a parameter. */
  path: string;
  summary: string;
  /** The scope that an API key needs. */
  scope: KeyScope;
  /** JSON Schema of the body, for the OpenAPI document. */
  body?: JsonObject;
  responses?: Record<number, string>;
}

export interface AdapterRequest {
  /** The method and the path pattern, such as `GET /api/config/{key}`. */
  route: string;
  params: Record<string, string>;
  query: Record<string, string>;
  body: Json;
  /** Identifies the caller to services; invalid once the request is answered. */
  as: string;
}

/** Without a body, the HTTP response is empty. */
export interface AdapterResponse {
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
  /**
   * The time of the first installation, if known. If two plugins have a tool of the same name, the older one keeps it.
   */
  installed_at?: string;
  /** The provenance of a package from npm, as it was verified at the installation. */
  provenance?: Provenance;
}

export const PLUGIN_ORIGINS = ["bundled", "installed", "local"] as const;
export type PluginOrigin = (typeof PLUGIN_ORIGINS)[number];

export const PLUGIN_STATUSES = ["loaded", "unloading", "failed", "unloaded", "disabled"] as const;
export type PluginStatus = (typeof PLUGIN_STATUSES)[number];

/** The namespace of `plugin.<ns>.*`: dashes become underscores. */
export function pluginNamespace(name: string): string {
  return name.replaceAll("-", "_");
}
