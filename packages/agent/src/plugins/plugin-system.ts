/** Builds the plugin system on a bus: registry, subscriptions, tools, adapters, services and providers. */

import { PLUGIN_FAILURES, pluginNamespace } from "@backplane/contract";
import { parsePluginSettingKey } from "@backplane/registry";
import { bootstrapProviders } from "../providers/bootstrap.ts";
import { InstanceOwners } from "../providers/owners.ts";
import { createProviders } from "../providers/providers.ts";
import { MountedAdapters } from "./adapters.ts";
import { Announcer } from "./announcer.ts";
import { createPluginContext } from "./context.ts";
import { describeThrown } from "./describe-thrown.ts";
import type { Instance, InstanceHooks } from "./instance.ts";
import { PluginLifecycle } from "./lifecycle.ts";
import { createPlugins } from "./plugins.ts";
import type { PluginSystem, PluginSystemDeps, PluginTimeouts } from "./plugins-port.ts";
import { PluginRegistry } from "./registry.ts";
import { isMeantFor, strategyIdOf } from "./routing.ts";
import { createServiceAccess, MintedCallers } from "./services.ts";
import { PluginSubscriptions } from "./subscriptions.ts";
import { PluginTools } from "./tool-table.ts";
import { withTimeout } from "./with-timeout.ts";

const TIMEOUTS: PluginTimeouts = {
  load_ms: 30_000,
  unload_ms: 5_000,
  drain_ms: 5_000,
  retire_ms: 600_000,
  request_ms: 30_000,
  brief_ms: 2_000,
  restart_ms: 500,
};

export function createPluginSystem(deps: PluginSystemDeps): PluginSystem {
  const { bus, config, log, clock, default_scope } = deps;
  const timeouts = { ...TIMEOUTS, ...deps.timeouts };
  const subscriptions = new PluginSubscriptions(bus);
  const tools = new PluginTools(log, deps.changes);
  const callers = new MintedCallers();
  const owners = new InstanceOwners(config, clock);
  const service = createServiceAccess(deps, callers);
  const adapters = new MountedAdapters({
    deps,
    timeouts,
    callers,
    subscribeOrg,
    isDisabled: (plugin) =>
      registry.list().some(({ name, status }) => name === plugin && status === "disabled"),
  });
  bus.kernel("adapters").subscribe("plugin.removed", ({ payload }) => adapters.onRemoved(payload.name));
  const hooks: InstanceHooks = {
    createContext: (instance, scope) =>
      createPluginContext(
        {
          deps,
          subscriptions,
          service,
          resolveScope: (plugin, as) => callers.resolve(plugin, as).caller?.scope ?? null,
          subscribeOrg,
          register: (owner, tool) => lifecycle.register(owner, tool),
        },
        instance,
        scope,
      ),
    isMeantFor: (instance, event) => isMeantFor(instance, event, owners),
    recordOutcome: (instance, failure) => registry.recordOutcome(instance, failure),
    reportError: ({ name }, failure) =>
      announcer.publish("plugin.error", { name, error: describeThrown(failure).message }),
  };
  const announcer = new Announcer(bus, subscriptions, log);
  const lifecycle = new PluginLifecycle({ deps, timeouts, subscriptions, tools, adapters, hooks });
  const registry = new PluginRegistry({
    deps,
    timeouts,
    threshold: deps.failures ?? PLUGIN_FAILURES,
    subscriptions,
    lifecycle,
    announcer,
  });
  const bootstraps = new Map<string, Promise<boolean>>();
  let stopped: Promise<void> | null = null;
  const stopListening = config.onUpdated(({ key }, org_id) => {
    if (org_id === default_scope.org_id) applySetting(key);
  });

  function subscribeOrg(org_id: string): void {
    if (subscriptions.orgs.has(org_id)) return;
    subscriptions.subscribeOrg(org_id);
    for (const instance of lifecycle.loaded)
      instance.bind(org_id, subscriptions.getPort(instance.name, org_id));
  }

  async function prepare(org_id: string): Promise<void> {
    subscribeOrg(org_id);
    let bootstrap = bootstraps.get(org_id);
    if (bootstrap === undefined) {
      // The host's own credentials must not reach another organization.
      const defaults = org_id === default_scope.org_id ? deps.provider_defaults : {};
      bootstrap = bootstrapProviders(deps, org_id, listLoadedProviders(), defaults);
      bootstraps.set(org_id, bootstrap);
    }
    const is_done = await bootstrap.catch((error: unknown) => {
      bootstraps.delete(org_id);
      throw error;
    });
    // The next request tries again.
    if (!is_done) bootstraps.delete(org_id);
  }

  async function findProviderInstance(org_id: string, provider: string): Promise<Instance | null> {
    const owner = await owners.find(org_id, provider);
    for (const instance of lifecycle.loaded) {
      const { entry, plugin, name } = instance;
      if (entry.category !== "llm-provider") continue;
      if (owner === null ? plugin.providerId === provider : owner === name) return instance;
    }
    return null;
  }

  function listLoadedProviders(): string[] {
    return registry
      .list()
      .filter(({ status, entry }) => status === "loaded" && entry.category === "llm-provider")
      .map(({ name }) => name);
  }

  /** Applies a plugin setting immediately, whichever interface wrote it. */
  function applySetting(key: string): void {
    const setting = parsePluginSettingKey(key);
    if (setting === null) return;
    for (const record of registry.list()) {
      if (pluginNamespace(record.name) !== setting.namespace) continue;
      let applied: Promise<void> | null = null;
      if (setting.field === "enabled") applied = registry.applyEnabled(record);
      else if (setting.field !== "services" && record.instance !== null) applied = registry.reload(record);
      applied?.catch((error: unknown) =>
        log.error({ err: error, plugin: record.name, key }, "a plugin setting could not be applied"),
      );
    }
  }

  async function stop(reason: string): Promise<void> {
    stopListening();
    owners.close();
    // Plugins receive kernel.shutdown before they are unsubscribed, unless the queue of the kernel's session
    // is blocked.
    const publish = () => announcer.publishAndWait("kernel.shutdown", { reason });
    await withTimeout(clock, timeouts.drain_ms, "kernel.shutdown", publish).catch((error: unknown) =>
      log.warn({ err: error }, "some plugins did not receive kernel.shutdown"),
    );
    await registry.stop();
    announcer.close();
  }

  return {
    facade: createPlugins(deps, registry),
    adapters,
    tools,
    callers,
    providers: createProviders({ ...deps, prepare, getPlugin: (name) => registry.get(name) }),
    async start() {
      subscribeOrg(default_scope.org_id);
      await registry.boot();
      await prepare(default_scope.org_id);
    },
    subscribeOrg,
    prepare,
    listStrategies: () =>
      [...lifecycle.loaded]
        .filter(({ entry }) => entry.category === "strategy")
        .map((instance) => ({ strategy_id: strategyIdOf(instance), plugin: instance.name })),
    findProviderOwner: async (org_id, provider) =>
      (await findProviderInstance(org_id, provider))?.name ?? null,
    findProviderPlugin: async (org_id, provider) =>
      (await findProviderInstance(org_id, provider))?.plugin ?? null,
    listMemoryStores: () =>
      [...lifecycle.loaded]
        .filter(({ entry }) => entry.category === "memory")
        .map(({ name, plugin }) => ({ plugin: name, store: plugin.memory ?? "long-term" })),
    snapshot: () => registry.list().map((record) => record.state()),
    stop(reason) {
      stopped ??= stop(reason);
      return stopped;
    },
  };
}
