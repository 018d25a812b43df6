/**
 * The part of the agent module that is built before the door: kernel plugins, their tools and the runner of those
 * tools, model calls and sampling, and the watchers of sessions.
 */

import {
  type CallState,
  type DoorBindings,
  SAMPLING_TOOL,
  type SamplingAccess,
  withKernelTools,
} from "@backplane/door";
import type { Changes, KernelDeps, PluginLoader, RegisteredTool, Runner } from "@backplane/ports";
import { PLUGIN_SETTINGS_SCOPE, type RegistryModule, withDefinitions } from "@backplane/registry";
import type { SessionModule } from "@backplane/session";
import { createFanout, type FanoutService } from "../fanout/fanout.ts";
import { ActiveTurns } from "../loop/active-turns.ts";
import { ActiveModels } from "../models/active-models.ts";
import { type FindProviderOwner, ModelCalls } from "../models/call-model.ts";
import { createContentLoader } from "../models/load-content.ts";
import { createProbe } from "../models/probe.ts";
import { createPluginSystem } from "../plugins/plugin-system.ts";
import type { KernelService, PluginSystem } from "../plugins/plugins-port.ts";
import { NET_FETCH } from "../plugins/services.ts";
import { createSampling } from "../sampling/sampling-access.ts";
import { createNetFetch } from "../services/net-fetch.ts";
import { createModuleRunner } from "../tools/module-runner.ts";

/** The modules that are built before this part. */
interface AgentHostModules {
  changes: Changes;
  registry: RegistryModule;
  session: SessionModule;
  calls: CallState;
}

export interface AgentHost {
  models: ModelCalls;
  active_models: ActiveModels;
  plugins: PluginSystem;
  /** Services for plugins, by name. Modules that are built later add their own. */
  services: Map<string, KernelService>;
  /** The kernel's own tools, by name. Modules that are built later add their own. */
  core_tools: Map<string, RegisteredTool>;
  /** The stored bindings together with the core tools and the tools of kernel plugins. */
  bindings: DoorBindings;
  /** Runs core tools and tools of kernel plugins itself, and forwards every other call to the process runner. */
  runner: Runner;
  fanout: FanoutService;
  turns: ActiveTurns;
  samplingAccess: SamplingAccess;
}

const NO_PLUGINS: PluginLoader = {
  discover: async () => ({ entries: [], problems: [] }),
  load: async () => Promise.reject(new Error("This gateway was started without a plugin loader.")),
  inspect: async () => [],
  install: async () => [],
  remove: async () => {},
  stateDir: () => "",
};

export function createAgentHost(deps: KernelDeps, modules: AgentHostModules): AgentHost {
  const { calls, changes, registry, session } = modules;
  const { store, clock, ids, log } = deps;
  const { bus, persister, port, sessions, live } = session;
  const turns = new ActiveTurns(calls.live);
  const active_models = new ActiveModels(registry.cached_config);
  const findOwner: FindProviderOwner = (org_id, provider) =>
    calls.store_wait.run("a model call", () => plugins.findProviderOwner(org_id, provider));
  const models = new ModelCalls(port, clock, findOwner, createContentLoader(deps));
  const services = new Map<string, KernelService>();
  const plugins: PluginSystem = createPluginSystem({
    bus,
    changes,
    loader: deps.plugins ?? NO_PLUGINS,
    config: registry.cached_config,
    store,
    clock,
    ids,
    log,
    default_scope: PLUGIN_SETTINGS_SCOPE,
    failures: deps.host.plugin_failures,
    services: () => services,
    schemas: deps.schemas,
    probe: createProbe(models, active_models, clock),
    ...(deps.provider_defaults === undefined ? {} : { provider_defaults: deps.provider_defaults }),
  });
  services.set(
    NET_FETCH,
    createNetFetch({ runner: deps.runner, config: registry.live_config, live: calls.live }),
  );
  const sampling = createSampling({ deps, models, active_models });
  const core_tools = new Map<string, RegisteredTool>([[SAMPLING_TOOL, sampling.tool]]);
  const bindings = withKernelTools(
    withDefinitions(store.bindings, store.definitions),
    plugins.tools,
    core_tools,
  );
  const runner = createModuleRunner({
    runner: deps.runner,
    clock,
    findTool: (binding_id) => bindings.tool(binding_id),
    // A tool uses kernel services on behalf of the turn that called it.
    mint({ plugin, scope, invocation_id, session_id }) {
      const turn = turns.findByCall(invocation_id);
      const call = { invocation_id, session_id, run_id: turn?.run.id ?? null, scope };
      return plugins.callers.mint({ plugin, caller: turn?.caller ?? null, call });
    },
  });
  return {
    models,
    active_models,
    plugins,
    services,
    core_tools,
    bindings,
    runner,
    fanout: createFanout({
      store,
      sessions,
      bus,
      feed: persister,
      live,
      clock,
      ids,
      log,
      limits: deps.host.watchers,
    }),
    turns,
    samplingAccess: sampling.access,
  };
}
