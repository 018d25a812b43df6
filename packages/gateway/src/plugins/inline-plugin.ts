/**
 * A plugin inside the gateway process, wrapped by the network guard: calls to its methods and tools enter the guard,
 * calls to its context leave it. The plugin may connect to the hosts that the operator has allowed for it and, for a
 * model provider, to the default host of its vendor and the hosts of its configured instances. The guard reads the
 * instances when the plugin does, so that both use the same ones. Each org and project has its own context, so that one
 * org cannot reach the hosts of another.
 */

import { addressOfUrl } from "@backplane/agent";
import {
  KERNEL_TOOL_FIELDS,
  type KernelPlugin,
  type KernelTool,
  PLUGIN_FIELDS,
  PLUGIN_METHODS,
  type PluginContext,
  type PluginEntry,
  type PluginLog,
  type ProviderInstance,
} from "@backplane/contract";
import type { Logger, PluginNetworkAccess } from "@backplane/ports";
import {
  type AddressCheck,
  allowList,
  createAddressCheck,
  type OutboundRules,
  type RunnerOptions,
} from "@backplane/runner";
import { type GuardedPlugin, installNetworkGuard, type NetworkGuard } from "./network-guard.ts";

/** At most this many refused connections are logged each time a plugin is loaded. */
const MAX_LOGGED_REFUSALS = 64;

export interface InlinePlugin extends GuardedPlugin {
  /** Allows the default URL of the vendor, from the config schema of the plugin. */
  addVendor(url: unknown): void;
  /** Creates the plugin's identity in the context of one org and project. */
  createScope(): ScopedPlugin;
}

interface ScopedPlugin extends GuardedPlugin {
  /** Sets the current instances of the org. */
  setInstances(instances: readonly ProviderInstance[]): void;
}

interface AllowedAddress {
  address: string;
  /** The host admin has allowed this private destination. */
  private_allowed: boolean;
}

export function createInlinePlugin(
  { name, category }: { name: string; category: PluginEntry["category"] | "instrument" },
  { allowed_domains }: PluginNetworkAccess,
  check: AddressCheck,
  log: Logger,
): InlinePlugin {
  const allow_list = allowList(allowed_domains);
  const vendor = new Set<string>();
  let log_quota = MAX_LOGGED_REFUSALS;
  const createIdentity = (listAllowed: () => readonly AllowedAddress[]): GuardedPlugin => {
    const allowedPrivate = () =>
      listAllowed().flatMap(({ address, private_allowed }) => (private_allowed ? [address] : []));
    return {
      name,
      allows(host, port) {
        const address = formatAddress(host, port);
        if (allow_list.allows({ host, port }) || vendor.has(address)) return true;
        return listAllowed().some((allowed) => allowed.address === address);
      },
      addresses: (host, port) => check.resolveAddresses({ host, port }, allowedPrivate()),
      refuseLiteral: (host, port) => check.refuseLiteral({ host, port }, allowedPrivate()),
      recordRefusal(address) {
        if (log_quota-- > 0) log.warn({ plugin: name, address }, "refused a connection by an inline plugin");
      },
    };
  };
  return {
    ...createIdentity(() => []),
    addVendor(url) {
      const address = category === "llm-provider" ? addressOfUrl(url) : null;
      if (address !== null) vendor.add(address);
    },
    createScope() {
      let allowed: AllowedAddress[] = [];
      return {
        ...createIdentity(() => allowed),
        setInstances(instances) {
          if (category !== "llm-provider") return;
          allowed = instances.flatMap(({ plugin, config }) => {
            const address = plugin === name ? addressOfUrl(config.base_url) : null;
            return address === null ? [] : [{ address, private_allowed: config.allow_private === address }];
          });
        },
      };
    },
  };
}

function formatAddress(host: string, port: number): string {
  return `${host.includes(":") ? `[${host}]` : host}:${port}`;
}

/** The guard for instrument plugins that the operator allows to run inside the gateway. */
export function createInlineGuard(rules: OutboundRules, log: Logger): NonNullable<RunnerOptions["guard"]> {
  const { enter, leave } = installNetworkGuard();
  const check = createAddressCheck(rules);
  return {
    runAsPlugin: ({ name, allowed_domains }, work) =>
      enter(createInlinePlugin({ name, category: "instrument" }, { allowed_domains }, check, log), work),
    runAsGateway: leave,
  };
}

export function guardPlugin(plugin: KernelPlugin, identity: InlinePlugin, guard: NetworkGuard): KernelPlugin {
  const contexts = new WeakMap<PluginContext, { context: PluginContext; scoped: GuardedPlugin }>();
  const contextFor = (ctx: PluginContext) => {
    let context = contexts.get(ctx);
    if (context === undefined) {
      const scoped = identity.createScope();
      context = { context: guardContext(ctx, scoped, guard), scoped };
      contexts.set(ctx, context);
    }
    return context;
  };
  const guarded: Record<string, unknown> = {};
  for (const field of PLUGIN_FIELDS) if (plugin[field] !== undefined) guarded[field] = plugin[field];
  guarded.subscriptions = () => guard.enter(identity, () => plugin.subscriptions());
  for (const method of PLUGIN_METHODS) {
    const call = plugin[method] as ((...args: unknown[]) => unknown) | undefined;
    if (typeof call !== "function") continue;
    // The context is always the last argument.
    guarded[method] = (...args: unknown[]) => {
      const { scoped, context } = contextFor(args.pop() as PluginContext);
      return guard.enter(scoped, () => call.call(plugin, ...args, context));
    };
  }
  identity.addVendor(defaultUrl(plugin));
  return guarded as unknown as KernelPlugin;
}

function guardContext(ctx: PluginContext, identity: ScopedPlugin, guard: NetworkGuard): PluginContext {
  const { leave } = guard;
  const { providers } = ctx;
  // Whenever the plugin reads its instances, the guard gets the current instances too.
  const refreshThen = <T>(readInstances: () => Promise<T>): Promise<T> =>
    leave(async () => {
      identity.setInstances(await providers.instancesForPlugin(ctx.name));
      return await readInstances();
    });
  const log = (level: keyof PluginLog): PluginLog[keyof PluginLog] => {
    return (fields, message) => leave(() => ctx.log[level](fields, message));
  };
  return {
    name: ctx.name,
    stateDir: ctx.stateDir,
    log: { debug: log("debug"), info: log("info"), warn: log("warn"), error: log("error") },
    providers: {
      listInstances: () => refreshThen(() => providers.listInstances()),
      instancesForPlugin: (plugin) => refreshThen(() => providers.instancesForPlugin(plugin)),
      getInstance: (id) => refreshThen(() => providers.getInstance(id)),
      activeId: () => leave(() => providers.activeId()),
    },
    emit: (kind, payload, options) => leave(() => ctx.emit(kind, payload, options)),
    config: () => leave(() => ctx.config()),
    registerTool: (tool) => leave(() => ctx.registerTool(guardTool(tool, identity, guard))),
    service: (name, args, as) => leave(() => ctx.service(name, args, as)),
  };
}

/** Copies field by field: a tool may be an instance of a class, whose inherited fields a spread would miss. */
function guardTool(tool: KernelTool, identity: GuardedPlugin, guard: NetworkGuard): KernelTool {
  const spec: Record<string, unknown> = {};
  for (const field of KERNEL_TOOL_FIELDS) if (tool[field] !== undefined) spec[field] = tool[field];
  const guarded = spec as unknown as KernelTool;
  guarded.run = (args, call) => {
    const progress: typeof call.progress = (event) => guard.leave(() => call.progress(event));
    return guard.enter(identity, () => tool.run(args, { ...call, progress }));
  };
  if (typeof tool.approvalBrief === "function") {
    guarded.approvalBrief = (args) => guard.enter(identity, () => tool.approvalBrief!(args));
  }
  if (typeof tool.preApprove === "function") {
    guarded.preApprove = (args) => guard.enter(identity, () => tool.preApprove!(args));
  }
  return guarded;
}

/** The URL of instances that do not set one. */
function defaultUrl({ configSchema }: KernelPlugin): unknown {
  const { properties } = (configSchema ?? {}) as { properties?: { base_url?: { default?: unknown } } };
  return properties?.base_url?.default;
}
