/** The interface between the plugin system and the rest of the kernel. */

import type {
  IdSource,
  Json,
  JsonObject,
  KernelPlugin,
  PluginCategory,
  PluginOrigin,
  PluginStatus,
} from "@backplane/contract";
import type {
  Adapters,
  AgentPlugins,
  AgentProviders,
  Caller,
  Changes,
  Clock,
  KernelDeps,
  Logger,
  PluginLoader,
  Schemas,
  Scope,
  Store,
  ToolTable,
} from "@backplane/ports";
import type { LiveConfig } from "@backplane/registry";
import type { Bus } from "@backplane/session";

export interface PluginSystemDeps {
  bus: Bus;
  changes: Changes;
  loader: PluginLoader;
  config: LiveConfig;
  store: Pick<Store, "audit">;
  clock: Clock;
  ids: IdSource;
  log: Logger;
  /**
   * The scope of plugin settings such as `plugin.<ns>.enabled` and `.trusted`, because one instance serves all orgs.
   */
  default_scope: Scope;
  /** Called for each request, because services may be added after the plugin system was built. */
  services(): ReadonlyMap<string, KernelService>;
  /** Checks request bodies against the schema of the adapter. Without it, the adapter has to check them. */
  schemas?: Schemas;
  /** Sends one small request to a provider instance. */
  probe: AgentProviders["test"];
  provider_defaults?: KernelDeps["provider_defaults"];
  /** Consecutive failures after which a plugin is unloaded; default 3. */
  failures?: number;
  timeouts?: Partial<PluginTimeouts>;
}

export interface PluginTimeouts {
  /** Limit for loading a module, and for its onLoad. */
  load_ms: number;
  unload_ms: number;
  /** Limit for the running work of a plugin that is being unloaded. */
  drain_ms: number;
  /** The same limit for an instance that a reload replaced. The reload does not wait for it. */
  retire_ms: number;
  request_ms: number;
  brief_ms: number;
  /** Delay before the first restart of a process that exited unexpectedly. The delay doubles each time. */
  restart_ms: number;
}

/** The caller on whose behalf a plugin uses a service. */
export interface ServiceIdentity {
  plugin: string;
  caller: Caller | null;
  call: ServiceCall | null;
  /** Set if there is no call: the org and project of the context, which the kernel sets for each event. */
  scope?: Scope;
}

/** The tool call that the plugin is handling. */
interface ServiceCall {
  invocation_id: string;
  session_id: string | null;
  workspace?: string;
  run_id?: string | null;
  /** The scope of the call, even when no turn made the call. */
  scope?: Scope;
}

export type KernelService = (args: JsonObject, identity: ServiceIdentity) => Promise<Json>;

export interface Callers {
  /** `as` represents `identity` until `end()`, and only for the plugin in `identity`. */
  mint(identity: ServiceIdentity): { as: string; end(): void };
  /**
   * Throws auth.invalid when `as` does not belong to a running call or request of this plugin. Without `as`, the
   * identity has no caller.
   */
  resolve(plugin: string, as: string | undefined): ServiceIdentity;
}

export interface PluginState {
  name: string;
  version: string;
  category: PluginCategory;
  origin: PluginOrigin;
  status: PluginStatus;
  mode: "inline" | "hosted";
  /** Consecutive failures so far. */
  failures: number;
  error: string | null;
  /** The stack trace that belongs to `error`. */
  trace: string | null;
}

/** A loaded memory plugin and the kind of store that it declares. */
export interface MemoryStore {
  plugin: string;
  store: "short-term" | "long-term";
}

export interface PluginSystem {
  facade: AgentPlugins;
  adapters: Adapters;
  tools: ToolTable;
  providers: AgentProviders;
  callers: Callers;
  start(): Promise<void>;
  /** Subscribes every loaded plugin in this org. Plugins are subscribed in the default org from the start. */
  subscribeOrg(org_id: string): void;
  /** Calls `subscribeOrg` and creates the org's default provider instances. */
  prepare(org_id: string): Promise<void>;
  listStrategies(): { strategy_id: string; plugin: string }[];
  /** Returns the name of the loaded plugin that serves this provider instance, or null. */
  findProviderOwner(org_id: string, provider: string): Promise<string | null>;
  /** Returns that plugin itself, or null. */
  findProviderPlugin(org_id: string, provider: string): Promise<KernelPlugin | null>;
  /** Returns the loaded memory plugins. */
  listMemoryStores(): MemoryStore[];
  snapshot(): PluginState[];
  /** Publishes kernel.shutdown, then unloads the plugins, each before the plugins that it requires. */
  stop(reason: string): Promise<void>;
}
