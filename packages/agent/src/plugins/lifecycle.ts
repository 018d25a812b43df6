/**
 * The lifecycle steps of a plugin: start, activate, deactivate and retire. Each step that waits for a plugin has a time
 * limit, and a step that fails leaves nothing behind. The registry decides when each step runs.
 */

import {
  BackplaneError,
  isBusKind,
  type KernelPlugin,
  type KernelTool,
  type PluginEntry,
} from "@backplane/contract";
import type { PluginNetworkAccess } from "@backplane/ports";
import type { MountedAdapters } from "./adapters.ts";
import { Instance, type InstanceHooks, type Mode } from "./instance.ts";
import type { PluginSystemDeps, PluginTimeouts } from "./plugins-port.ts";
import { strategyIdOf } from "./routing.ts";
import type { PluginSubscriber, PluginSubscriptions } from "./subscriptions.ts";
import type { PluginTools } from "./tool-table.ts";
import { adaptLegacyTool, adaptTypedTool, type ToolDeps } from "./tools.ts";
import { withTimeout } from "./with-timeout.ts";

export interface LifecycleOptions {
  deps: Pick<PluginSystemDeps, "clock" | "default_scope" | "ids" | "loader" | "log">;
  timeouts: PluginTimeouts;
  subscriptions: PluginSubscriptions;
  tools: PluginTools;
  adapters: MountedAdapters;
  hooks: InstanceHooks;
}

export class PluginLifecycle {
  readonly #options: LifecycleOptions;
  readonly #tool_deps: ToolDeps;
  readonly #loaded = new Set<Instance>();
  #generation = 0;

  constructor(options: LifecycleOptions) {
    this.#options = options;
    const { clock, ids } = options.deps;
    this.#tool_deps = { clock, ids, brief_ms: options.timeouts.brief_ms };
  }

  /** The instances that receive events. */
  get loaded(): ReadonlySet<Instance> {
    return this.#loaded;
  }

  /** Loads the module or starts the process. Of the plugin's functions, only `subscriptions()` runs in this step. */
  async startInstance(entry: PluginEntry, mode: Mode, network: PluginNetworkAccess): Promise<Instance> {
    const { deps, timeouts, hooks } = this.#options;
    const loading = deps.loader.load(entry, mode, network);
    const loaded = await withTimeout(
      deps.clock,
      timeouts.load_ms,
      `loading ${entry.name}`,
      () => loading,
    ).catch((error: unknown) => {
      // A plugin that is ready after the timeout is closed, because nothing else would close it.
      loading.then((plugin) => plugin.close()).catch(() => {});
      throw error;
    });
    try {
      checkPlugin(entry, loaded.plugin);
      const instance = new Instance(entry, mode, loaded, ++this.#generation, hooks);
      const unknown = findUnknownKinds(entry.name, instance.kinds);
      if (unknown.length > 0)
        deps.log.warn({ plugin: entry.name, kinds: unknown }, "a plugin subscribes to unknown event kinds");
      return instance;
    } catch (error) {
      await loaded.close().catch(() => {});
      throw error;
    }
  }

  /**
   * Runs onLoad and then, in one synchronous step, activates tools, routes and subscriptions in place of
   * those of `old`. `stillWanted` is called right before that step. On an error the instance is closed and
   * `old` stays active.
   */
  async activate(
    instance: Instance,
    { old, api, stillWanted }: { old: Instance | null; api: boolean; stillWanted: () => boolean },
  ): Promise<void> {
    const { deps, timeouts, subscriptions, tools, adapters } = this.#options;
    const { name, plugin } = instance;
    try {
      checkIds(instance, this.#loaded);
      adapters.check(instance, api);
      const legacy = plugin.category === "tool" ? adaptLegacyTool(this.#tool_deps, instance) : null;
      if (legacy !== null) {
        tools.check(legacy);
        instance.tools.add(legacy);
      }
      subscriptions.add(subscriberFor(instance));
      const onLoad = async () => await plugin.onLoad?.(instance.getContext(deps.default_scope));
      await withTimeout(deps.clock, timeouts.load_ms, `onLoad of ${name}`, () =>
        Promise.race([onLoad(), instance.died]),
      );
      if (!stillWanted())
        throw new BackplaneError("cancelled", `The state of ${name} changed while it was loading.`);
      // Checked again, because other plugins may have been loaded during onLoad. No step after this one is
      // asynchronous.
      checkIds(instance, this.#loaded);
      adapters.check(instance, api);
      tools.replace(old?.tools ?? [], instance.tools);
    } catch (error) {
      if (old === null) subscriptions.release(name);
      await this.discard(instance);
      throw error;
    }
    adapters.mount(instance, api);
    old?.unbind();
    if (old !== null) this.#loaded.delete(old);
    this.#loaded.add(instance);
    for (const org_id of subscriptions.orgs) instance.bind(org_id, subscriptions.getPort(name, org_id));
  }

  /**
   * Called by `registerTool`. The tool of a loaded plugin is active immediately; that of a plugin that is still loading
   * is activated with the plugin.
   */
  register(instance: Instance, tool: KernelTool): void {
    const { tools } = this.#options;
    const definition = adaptTypedTool(this.#tool_deps, instance, tool);
    for (const registered of instance.tools) {
      if (registered.legacy || registered.spec.name !== definition.spec.name) continue;
      throw new BackplaneError(
        "plugin.invalid",
        `${instance.name} has already registered the tool ${definition.spec.name}.`,
      );
    }
    if (this.#loaded.has(instance)) tools.replace([], [definition]);
    else tools.check(definition);
    instance.tools.add(definition);
  }

  /** Stops the delivery of new events, calls and requests. Running work continues. */
  deactivate(instance: Instance): void {
    instance.unbind();
    this.#loaded.delete(instance);
    this.#options.tools.replace(instance.tools, []);
    this.#options.adapters.unmount(instance);
  }

  /** Waits for running work, calls onUnload and closes the instance. Never throws. */
  async retire(instance: Instance, drain_ms: number): Promise<void> {
    const { deps, timeouts } = this.#options;
    const { name, plugin } = instance;
    if (drain_ms > 0 && !instance.dead) {
      await withTimeout(deps.clock, drain_ms, `the running calls of ${name}`, () =>
        instance.waitUntilIdle(),
      ).catch(() => {
        deps.log.warn(
          { plugin: name, running: instance.running },
          "a plugin is unloaded with calls still running",
        );
      });
    }
    if (plugin.onUnload !== undefined && !instance.dead) {
      const onUnload = () => plugin.onUnload!(instance.getContext(deps.default_scope));
      await withTimeout(deps.clock, timeouts.unload_ms, `onUnload of ${name}`, onUnload).catch(
        (error: unknown) => {
          deps.log.warn({ err: error, plugin: name }, "onUnload failed");
        },
      );
    }
    await this.discard(instance);
  }

  /** Closes an instance that was never loaded or whose onUnload has run. Never throws. */
  async discard(instance: Instance): Promise<void> {
    const { deps, timeouts } = this.#options;
    const close = () => instance.close();
    await withTimeout(deps.clock, timeouts.unload_ms, `closing ${instance.name}`, close).catch(
      (error: unknown) => {
        deps.log.warn({ err: error, plugin: instance.name }, "a plugin could not be closed");
      },
    );
  }
}

export function subscriberFor({ entry, plugin }: Instance): PluginSubscriber {
  const { name, category, origin } = entry;
  return { name, category, bundled: origin === "bundled", prefixes: plugin.prefixes ?? [] };
}

const KIND_PATTERN = /^(\*|[a-z][a-z0-9_-]*(\.[a-z0-9_-]+)*(\.\*)?)$/;

/**
 * Throws `plugin.invalid` if the module is not a valid plugin or differs from the entry in its package.json. The entry
 * was read without running the module (plug.trust).
 */
function checkPlugin(entry: PluginEntry, plugin: KernelPlugin): void {
  if (typeof plugin !== "object" || plugin === null) throw invalid(`${entry.name} does not export a plugin`);
  const { name, category, version, requires = [], prefixes = [], routes = [] } = plugin;
  if (name !== entry.name)
    throw invalid(`the module is named ${name}, but its package.json says ${entry.name}`);
  if (category !== entry.category) {
    throw invalid(`the module's category is ${category}, but its package.json says ${entry.category}`);
  }
  if (typeof version !== "string" || version === "") throw invalid(`${name} has no version`);
  for (const [field, list] of Object.entries({ requires, prefixes })) {
    if (!isStringList(list)) throw invalid(`${field} of ${name} is not a list of names`);
  }
  if (!Array.isArray(routes)) throw invalid(`routes of ${name} is not a list`);
  if (routes.length > 0 && (category !== "adapter" || typeof plugin.onRequest !== "function")) {
    throw invalid(`${name} declares routes, which need category adapter and onRequest()`);
  }
  if (typeof plugin.subscriptions !== "function") throw invalid(`${name} has no subscriptions()`);
}

/**
 * Returns the kinds that are not in the catalog. Throws `plugin.invalid` for anything that is not a kind or a pattern.
 */
function findUnknownKinds(name: string, kinds: readonly string[]): string[] {
  if (!isStringList(kinds)) throw invalid(`subscriptions() of ${name} must return a list of event kinds`);
  const malformed = kinds.find((kind) => !KIND_PATTERN.test(kind));
  if (malformed !== undefined)
    throw invalid(
      `${name} subscribes to ${JSON.stringify(malformed)}, which is not an event kind or pattern`,
    );
  return kinds.filter((kind) => !kind.endsWith("*") && !kind.startsWith("x.") && !isBusKind(kind));
}

/**
 * Throws when another loaded plugin has the same strategy, provider or adapter id. The first plugin keeps the
 * id.
 */
function checkIds(instance: Instance, others: Iterable<Instance>): void {
  const own_ids = idsOf(instance);
  for (const other of others) {
    if (other.name === instance.name) continue;
    const conflict = idsOf(other).find((id) => own_ids.includes(id));
    if (conflict !== undefined) throw invalid(`the ${conflict} is taken by ${other.name}`);
  }
}

function idsOf(instance: Instance): string[] {
  const { category, providerId, adapterId } = instance.plugin;
  if (category === "strategy") return [`strategy_id ${strategyIdOf(instance)}`];
  if (category === "llm-provider" && providerId !== undefined) return [`provider_id ${providerId}`];
  return category === "adapter" && adapterId !== undefined ? [`adapter_id ${adapterId}`] : [];
}

function isStringList(value: unknown): value is readonly string[] {
  return Array.isArray(value) && value.every((item) => typeof item === "string");
}

function invalid(message: string): BackplaneError {
  return new BackplaneError("plugin.invalid", message, {
    fix: "Correct the plugin's module or its package.json.",
  });
}
