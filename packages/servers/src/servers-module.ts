/** Builds the services for MCP servers, their sign-ins and instrument plugins. */

import { CORE_PLUGIN, type DoorModule, REQUEST_TOOL } from "@backplane/door";
import type { Caller, Changes, Kernel, KernelDeps, RegisteredTool } from "@backplane/ports";
import type { RegistryModule, SignInTokens, TokenRevocation } from "@backplane/registry";
import type { SessionModule } from "@backplane/session";
import { createDefinitionsRefresher } from "./definitions/refresh-definitions.ts";
import { createInstrumentAdminTools } from "./instruments/admin-tools.ts";
import { createInstruments } from "./instruments/instruments.ts";
import { createApprovedRequest } from "./servers/approved-request.ts";
import { createServers } from "./servers/servers.ts";
import { createSignIns } from "./sign-ins/sign-ins.ts";

interface ServersModuleDeps {
  changes: Changes;
  registry: RegistryModule;
  session: SessionModule;
  door: DoorModule;
  tokens: SignInTokens;
  revocation: TokenRevocation;
  /** The kernel's own tools by name; this module adds its tools. */
  core_tools: Map<string, RegisteredTool>;
  /** Returns the caller behind the handle of a running tool call; null outside a turn. */
  resolveCaller: (plugin: string, as: string) => Caller | null;
}

interface ServersModule {
  facade: Pick<Kernel, "servers" | "instruments" | "signIns">;
  start(): Promise<void>;
  /** Runs in the background, so that a slow plugin does not delay the start of the gateway. */
  loadInstruments(): void;
  stopRefreshing(): void;
  stop(): Promise<void>;
}

export function createServersModule(deps: KernelDeps, modules: ServersModuleDeps): ServersModule {
  const { changes, core_tools, door, revocation, registry, tokens } = modules;
  const { policies, definitions } = registry;
  const refresher = createDefinitionsRefresher(deps, modules.session.bus.kernel("mcp", ["mcp"]));
  changes.on("definitions.written", ({ bound, definitions: row }) => refresher.recordResult(bound, row));
  const { sendApprovedRequest, tool } = createApprovedRequest(door.door);
  core_tools.set(REQUEST_TOOL, tool);
  const servers = createServers(deps, policies, tokens, door.door.state, sendApprovedRequest);
  changes.on("catalog.changed", () => servers.expireLists());
  const instruments = createInstruments({
    deps,
    policies,
    definitions,
    inspect: (caller, source) => registry.facade.installations.inspect(caller, source),
    installChecked: registry.installChecked,
    bindings: registry.facade.bindings,
    catalog: door.facade.catalog,
  });
  changes.on("bindings.changed", ({ bindings }) => instruments.reloadDependents(bindings));
  const admin_tools = createInstrumentAdminTools(instruments.facade, deps.version ?? "0.0.0", (as) =>
    modules.resolveCaller(CORE_PLUGIN, as),
  );
  for (const tool of admin_tools) core_tools.set(tool.spec.name, tool);
  return {
    facade: {
      servers: servers.facade,
      instruments: instruments.facade,
      signIns: createSignIns(deps, definitions, revocation),
    },
    start: () => refresher.start(definitions),
    loadInstruments: () => void instruments.loadAll(() => door.door.state.stopping),
    stopRefreshing: () => refresher.stop(),
    stop: () => revocation.idle(),
  };
}
