/** The plugin system as the rest of the kernel knows it: what it is given and what it offers. */

import type {
  IdSource,
  Json,
  JsonObject,
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
  /** Where `plugin.<ns>.enabled`, `.trusted`, `.services` and `.api` are read: one instance serves all orgs. */
  default_scope: Scope;
  /** Asked at each call, so that services can be made after the plugin system. */
  services(): ReadonlyMap<string, KernelService>;
  /** Holds bodies against what an adapter says of them; without it that is left to the adapter. */
  schemas?: Schemas;
  /** One small call to a provider instance. */
  probe: AgentProviders["test"];
  /** Consecutive failures that end a plugin; default 3. */
  failures?: number;
  timeouts?: Partial<PluginTimeouts>;
}

export interface PluginTimeouts {
  /** Bringing a module to life, and its onLoad. */
  load_ms: number;
  unload_ms: number;
  /** What still runs in a plugin that is being unloaded may take this long to end. */
  drain_ms: number;
  /** The same for an instance that a reload replaced: nothing waits for it. */
  retire_ms: number;
  request_ms: number;
  brief_ms: number;
  /** Before the first restart of a process that ended by itself; doubles. */
  restart_ms: number;
}

/** On whose behalf a plugin asks a service. */
export interface ServiceWho {
  plugin: string;
  caller: Caller | null;
  call: ServiceCall | null;
}

/** The tool call that the plugin is serving. */
interface ServiceCall {
  invocation_id: string;
  session_id: string | null;
  workspace?: string;
  run_id?: string | null;
  /** Of the call, also where no turn made it. */
  scope?: Scope;
}

/** Values in, values out. */
export type KernelService = (args: JsonObject, who: ServiceWho) => Promise<Json>;

export interface Callers {
  /** `as` stands for `who` until `end()`, and for the plugin that it names alone. */
  mint(who: ServiceWho): { as: string; end(): void };
  /** Throws auth.invalid when `as` is not of a call of this plugin that still runs. */
  resolve(plugin: string, as: string | undefined): ServiceWho;
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
  /** The author's own trace of what `error` says. */
  trace: string | null;
}

export interface PluginSystem {
  facade: AgentPlugins;
  adapters: Adapters;
  tools: ToolTable;
  providers: AgentProviders;
  callers: Callers;
  start(): Promise<void>;
  /** Subscribes every loaded plugin in this org. In the default org plugins are subscribed from the start. */
  enter(org_id: string): void;
  /** `enter`, and the org's default provider instances are there. */
  prepare(org_id: string): Promise<void>;
  strategies(): { strategy_id: string; plugin: string }[];
  /** The loaded plugin that answers for this provider instance, or null. */
  providerOf(org_id: string, provider: string): Promise<string | null>;
  /** The loaded memory plugins. */
  memories(): string[];
  snapshot(): PluginState[];
  /** Publishes kernel.shutdown, then unloads in reverse order. */
  stop(reason: string): Promise<void>;
}
