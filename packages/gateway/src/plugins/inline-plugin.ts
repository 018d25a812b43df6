/**
 * A plugin in this process, with the network guard around each way into its code and out of it: its methods and its
 * tools enter, everything of its context leaves. What it may connect to is what the operator has named for it, and of
 * a model provider the hosts of its instances, which somebody of their org has configured; the guard learns them on their
 * way to the plugin, so they are those that it uses. Each org and project has a context of its own: what one org's
 * instances may reach, another's may not.
 */
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
import { placeOfUrl } from "@backplane/agent";
import type { Logger, PluginReach } from "@backplane/ports";
import {
  type AddressCheck,
  allowList,
  createAddressCheck,
  type OutboundRules,
  type RunnerOptions,
} from "@backplane/runner";
import { type GuardedPlugin, installNetworkGuard, type NetworkGuard } from "./network-guard.ts";

/** Of one instance of a plugin; more would only fill the log. */
const LOGGED = 64;

export interface InlinePlugin extends GuardedPlugin {
  /** The vendor's own address, from the plugin's schema. */
  addVendor(url: unknown): void;
  /** The plugin as it serves one org and project. */
  scoped(): ScopedPlugin;
}

interface ScopedPlugin extends GuardedPlugin {
  /** What the configuration says now: every instance of the org. */
  learn(instances: readonly ProviderInstance[]): void;
}

interface Place {
  place: string;
  /** The host's admin has opened this very place, although it is not public. */
  opened: boolean;
}

export function inlinePlugin(
  { name, category }: { name: string; category: PluginEntry["category"] | "instrument" },
  { allowed_domains }: PluginReach,
  check: AddressCheck,
  log: Logger,
): InlinePlugin {
  const named = allowList(allowed_domains);
  const vendor = new Set<string>();
  let left = LOGGED;
  const guarded = (instances: () => readonly Place[]): GuardedPlugin => {
    const opened = () => instances().flatMap(({ place, opened: open }) => (open ? [place] : []));
    return {
      name,
      allows(host, port) {
        const place = spell(host, port);
        if (named.allows({ host, port }) || vendor.has(place)) return true;
        return instances().some((one) => one.place === place);
      },
      addresses: (host, port) => check.addresses({ host, port }, opened()),
      refuseLiteral: (host, port) => check.refuseLiteral({ host, port }, opened()),
      refused(place) {
        if (left-- > 0) log.warn({ plugin: name, place }, "an inline plugin was refused a connection");
      },
    };
  };
  return {
    ...guarded(() => []),
    addVendor(url) {
      const place = category === "llm-provider" ? placeOfUrl(url) : null;
      if (place !== null) vendor.add(place);
    },
    scoped() {
      let places: Place[] = [];
      return {
        ...guarded(() => places),
        learn(instances) {
          if (category !== "llm-provider") return;
          places = instances.flatMap(({ plugin, config }) => {
            const place = plugin === name ? placeOfUrl(config.base_url) : null;
            return place === null ? [] : [{ place, opened: config.allow_private === place }];
          });
        },
      };
    },
  };
}

function spell(host: string, port: number): string {
  return `${host.includes(":") ? `[${host}]` : host}:${port}`;
}

/** For plugins of other kinds that the operator lets run in this process. */
export function inlineGuard(rules: OutboundRules, log: Logger): NonNullable<RunnerOptions["guard"]> {
  const { enter, leave } = installNetworkGuard();
  const check = createAddressCheck(rules);
  return {
    runAsPlugin: ({ name, allowed_domains }, work) =>
      enter(inlinePlugin({ name, category: "instrument" }, { allowed_domains }, check, log), work),
    runAsGateway: leave,
  };
}

export function guardPlugin(plugin: KernelPlugin, who: InlinePlugin, guard: NetworkGuard): KernelPlugin {
  const contexts = new WeakMap<PluginContext, { context: PluginContext; as: GuardedPlugin }>();
  const contextFor = (ctx: PluginContext) => {
    let made = contexts.get(ctx);
    if (made === undefined) {
      const as = who.scoped();
      made = { context: guardContext(ctx, as, guard), as };
      contexts.set(ctx, made);
    }
    return made;
  };
  const guarded: Record<string, unknown> = {};
  for (const field of PLUGIN_FIELDS) if (plugin[field] !== undefined) guarded[field] = plugin[field];
  guarded.subscriptions = () => guard.enter(who, () => plugin.subscriptions());
  for (const method of PLUGIN_METHODS) {
    const call = plugin[method] as ((...args: unknown[]) => unknown) | undefined;
    if (typeof call !== "function") continue;
    // The context is the last of them all.
    guarded[method] = (...args: unknown[]) => {
      const { as, context } = contextFor(args.pop() as PluginContext);
      return guard.enter(as, () => call.call(plugin, ...args, context));
    };
  }
  who.addVendor(defaultUrl(plugin));
  return guarded as unknown as KernelPlugin;
}

function guardContext(ctx: PluginContext, who: ScopedPlugin, guard: NetworkGuard): PluginContext {
  const { leave } = guard;
  const { providers } = ctx;
  // Whatever of them the plugin reads, the guard knows them all as they are now.
  const read = <T>(look: () => Promise<T>): Promise<T> =>
    leave(async () => {
      who.learn(await providers.listInstances());
      return await look();
    });
  const log = (level: keyof PluginLog): PluginLog[keyof PluginLog] => {
    return (fields, message) => leave(() => ctx.log[level](fields, message));
  };
  return {
    name: ctx.name,
    stateDir: ctx.stateDir,
    log: { debug: log("debug"), info: log("info"), warn: log("warn"), error: log("error") },
    providers: {
      listInstances: () => read(() => providers.listInstances()),
      instancesForPlugin: (plugin) => read(() => providers.instancesForPlugin(plugin)),
      getInstance: (id) => read(() => providers.getInstance(id)),
      activeId: () => leave(() => providers.activeId()),
    },
    emit: (kind, payload, options) => leave(() => ctx.emit(kind, payload, options)),
    config: () => leave(() => ctx.config()),
    registerTool: (tool) => leave(() => ctx.registerTool(guardTool(tool, who, guard))),
    service: (name, args, as) => leave(() => ctx.service(name, args, as)),
  };
}

/** Named one by one: a tool may be an instance of a class, whose values a spread would miss. */
function guardTool(tool: KernelTool, who: GuardedPlugin, guard: NetworkGuard): KernelTool {
  const spec: Record<string, unknown> = {};
  for (const field of KERNEL_TOOL_FIELDS) if (tool[field] !== undefined) spec[field] = tool[field];
  const guarded = spec as unknown as KernelTool;
  guarded.run = (args, call) => {
    const progress: typeof call.progress = (event) => guard.leave(() => call.progress(event));
    return guard.enter(who, () => tool.run(args, { ...call, progress }));
  };
  if (typeof tool.approvalBrief === "function") {
    guarded.approvalBrief = (args) => guard.enter(who, () => tool.approvalBrief!(args));
  }
  return guarded;
}

/** Where the vendor is, unless an instance says otherwise. */
function defaultUrl({ configSchema }: KernelPlugin): unknown {
  const { properties } = (configSchema ?? {}) as { properties?: { base_url?: { default?: unknown } } };
  return properties?.base_url?.default;
}
