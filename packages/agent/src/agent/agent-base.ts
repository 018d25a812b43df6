/** What the door needs of the agent half: the bus, the tapes and the tools of plugins. Made before the door. */

import { KERNEL_SESSION } from "@backplane/contract";
import { type DoorBindings, StoreWait, withKernelTools } from "@backplane/door";
import type {
  InvocationRow,
  KernelDeps,
  PluginLoader,
  RegisteredTool,
  RunHold,
  SessionKey,
} from "@backplane/ports";
import {
  createCachedConfig,
  createLiveConfig,
  type LiveConfig,
  PLUGIN_SETTINGS_SCOPE,
  withDefinitions,
} from "@backplane/registry";
import {
  type Bus,
  createBus,
  createPersister,
  createSessions,
  createTurnTape,
  type KernelPort,
  LiveSessions,
  type Persister,
  type Sessions,
  type TurnTape,
} from "@backplane/session";
import { ModelCalls } from "../models/call-model.ts";
import { ActiveModels, createProbe } from "../models/models.ts";
import { createPluginSystem } from "../plugins/plugin-system.ts";
import type { KernelService, PluginSystem } from "../plugins/plugins-port.ts";
import { tapeEvents } from "./tape-events.ts";

export interface AgentBase {
  bus: Bus;
  port: KernelPort;
  /** Read fresh at every call. */
  live_config: LiveConfig;
  /** For those who ask at every step. */
  config: LiveConfig;
  persister: Persister;
  sessions: Sessions;
  live: LiveSessions;
  models: ModelCalls;
  active: ActiveModels;
  plugins: PluginSystem;
  services: Map<string, KernelService>;
  store_wait: StoreWait;
  /** The kernel's own tools by name; filled by what is made after this. */
  core: Map<string, RegisteredTool>;
  bindings: DoorBindings;
  turns: TurnTape;
  /** Set by the loop, which is made after this. */
  late: {
    ended: (key: SessionKey, row: InvocationRow) => void;
    takenOver: (hold: RunHold) => void;
  };
}

const NO_PLUGINS: PluginLoader = {
  discover: async () => ({ entries: [], problems: [] }),
  load: async () => Promise.reject(new Error("there are no plugins")),
  inspect: async () => [],
  install: async () => [],
  remove: async () => {},
  stateDir: () => "",
};

export function createAgentBase(deps: KernelDeps): AgentBase {
  const { store, clock, ids, log } = deps;
  const bus = createBus({ clock, ids, log, ...(deps.pause === undefined ? {} : { pause: deps.pause }) });
  const port = bus.kernel();
  const live_config = createLiveConfig(deps);
  const config = createCachedConfig(live_config, clock);
  const live = new LiveSessions();
  const losses = bus.kernel("session-persister");
  const persister = createPersister({
    store,
    clock,
    log,
    lost: ({ key, source, error }) =>
      void losses.tryPublish(
        "plugin.error",
        { name: source, error },
        { session_id: KERNEL_SESSION, scope: key.scope },
      ),
    takenOver: (hold) => late.takenOver(hold),
  });
  const store_wait = new StoreWait(clock, log, deps.host.store_wait_ms);
  const models = new ModelCalls(port, clock, (org_id, provider) =>
    store_wait.run("a model call", () => plugins.providerOf(org_id, provider)),
  );
  const active = new ActiveModels(config);
  const services = new Map<string, KernelService>();
  const core = new Map<string, RegisteredTool>();
  const late: AgentBase["late"] = { ended() {}, takenOver() {} };
  const plugins: PluginSystem = createPluginSystem({
    bus,
    loader: deps.plugins ?? NO_PLUGINS,
    config,
    store,
    clock,
    ids,
    log,
    default_scope: PLUGIN_SETTINGS_SCOPE,
    services: () => services,
    schemas: deps.schemas,
    probe: createProbe(models, active, ids, clock),
  });
  tapeEvents(bus.kernel("tape"), live, persister);
  config.onUpdated(({ key, prefix_match_hint }, org_id) => {
    const sent = port.tryPublish(
      "config.updated",
      { key, prefix_match_hint },
      { session_id: KERNEL_SESSION, scope: { org_id, project_id: null } },
    );
    if (sent === null)
      log.error({ key }, "the kernel's session is full; a change of configuration was not told");
  });
  return {
    bus,
    port,
    live_config,
    config,
    persister,
    live,
    models,
    active,
    plugins,
    services,
    store_wait,
    sessions: createSessions({ store, clock, ids }),
    core,
    bindings: withKernelTools(withDefinitions(store.bindings, store.definitions), plugins.tools, core),
    turns: createTurnTape({ store, persister, port, log, ended: (key, row) => late.ended(key, row) }),
    late,
  };
}
