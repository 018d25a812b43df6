/**
 * A plugin in this process, with the network guard around each way into its code and out of it: its methods and its
 * tools enter, everything of its context leaves. What it may connect to is what the operator has named for it, and of
 * a model provider the hosts of its instances, which the operator has configured; the guard learns them on their way
 * to the plugin, so they are those that it uses.
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
import type { Logger, PluginReach } from "@backplane/kernel/ports";
import { allowList, type RunnerOptions } from "@backplane/runner";
import { type GuardedPlugin, installNetworkGuard, type NetworkGuard } from "./network-guard.ts";

/** Of one instance of a plugin; more would only fill the log. */
const LOGGED = 64;

export interface InlinePlugin extends GuardedPlugin {
  /** A place that the operator has configured for it. */
  add(url: unknown): void;
}

export function inlinePlugin(
  { name, category }: { name: string; category: PluginEntry["category"] | "instrument" },
  { allowed_domains }: PluginReach,
  log: Logger,
): InlinePlugin {
  const named = allowList(allowed_domains);
  const configured = new Set<string>();
  let left = LOGGED;
  return {
    name,
    allows: (host, port) => named.allows({ host, port }) || configured.has(`${host}:${port}`),
    refused(place) {
      if (left-- > 0) log.warn({ plugin: name, place }, "an inline plugin was refused a connection");
    },
    add(url) {
      if (category !== "llm-provider" || typeof url !== "string" || !URL.canParse(url)) return;
      const { hostname, port, protocol } = new URL(url);
      configured.add(`${hostname.replaceAll(/[[\]]/g, "")}:${port || (protocol === "http:" ? 80 : 443)}`);
    },
  };
}

/** For plugins of other kinds that the operator lets run in this process. */
export function inlineGuard(log: Logger): NonNullable<RunnerOptions["guard"]> {
  const { enter, leave } = installNetworkGuard();
  return {
    enter: ({ name, allowed_domains }, work) =>
      enter(inlinePlugin({ name, category: "instrument" }, { allowed_domains }, log), work),
    leave,
  };
}

export function guardPlugin(plugin: KernelPlugin, who: InlinePlugin, guard: NetworkGuard): KernelPlugin {
  const contexts = new WeakMap<PluginContext, PluginContext>();
  const contextFor = (ctx: PluginContext): PluginContext => {
    let made = contexts.get(ctx);
    if (made === undefined) {
      made = guardContext(ctx, who, guard);
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
      const ctx = args.pop() as PluginContext;
      return guard.enter(who, () => call.call(plugin, ...args, contextFor(ctx)));
    };
  }
  who.add(defaultUrl(plugin));
  return guarded as unknown as KernelPlugin;
}

function guardContext(ctx: PluginContext, who: InlinePlugin, guard: NetworkGuard): PluginContext {
  const { leave } = guard;
  const learned = <T extends ProviderInstance | null>(instance: T): T => {
    if (instance?.plugin === who.name) who.add(instance.config.base_url);
    return instance;
  };
  const { providers } = ctx;
  const log = (level: keyof PluginLog): PluginLog[keyof PluginLog] => {
    return (fields, message) => leave(() => ctx.log[level](fields, message));
  };
  return {
    name: ctx.name,
    stateDir: ctx.stateDir,
    log: { debug: log("debug"), info: log("info"), warn: log("warn"), error: log("error") },
    providers: {
      listInstances: async () => (await leave(() => providers.listInstances())).map(learned),
      instancesForPlugin: async (plugin) =>
        (await leave(() => providers.instancesForPlugin(plugin))).map(learned),
      getInstance: async (id) => learned(await leave(() => providers.getInstance(id))),
      activeId: () => leave(() => providers.activeId()),
    },
    emit: (kind, payload, options) => leave(() => ctx.emit(kind, payload, options)),
    config: () => leave(() => ctx.config()),
    registerTool: (tool) => leave(() => ctx.registerTool(guardTool(tool, who, guard))),
    service: (name, args, as) => leave(() => ctx.service(name, args, as)),
  };
}

/** Named one by one: a tool may be an instance of a class, whose values a spread would miss. */
function guardTool(tool: KernelTool, who: InlinePlugin, guard: NetworkGuard): KernelTool {
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
