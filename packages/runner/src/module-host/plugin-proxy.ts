/** A KernelPlugin whose methods are forwarded to the plugin's process. */
import {
  BackplaneError,
  type KernelPlugin,
  type KernelTool,
  type KernelToolCall,
  type KernelToolSpec,
  findKernelPluginProblem,
  type PluginContext,
  type PluginDescription,
  type PluginEntry,
} from "@backplane/contract";
import type { LiveContexts } from "./live-contexts.ts";
import type { ModuleSession } from "./module-session.ts";

export interface ProxyContext {
  entry: PluginEntry;
  contexts: LiveContexts;
  calls: Map<number, KernelToolCall>;
  /** A number that no call of this process has used. */
  nextCall: () => number;
  session: () => ModuleSession;
  alive: () => boolean;
  /** Replaces the error of a closed pipe with the reason why the process exited. */
  explainFailure: <T>(answer: Promise<T>) => Promise<T>;
  /** Kills the process if the answer takes longer than `ms`. */
  within: <T>(ms: number, label: string, answer: Promise<T>) => Promise<T>;
  timeouts: { on_load_ms: number; unload_ms: number };
}

export function proxyPlugin(parts: ProxyContext, description: PluginDescription): KernelPlugin {
  const { explainFailure, session, timeouts, within } = parts;
  const { fields, methods, subscriptions } = description;
  const implemented = new Set(methods);
  const plugin: KernelPlugin = {
    ...fields,
    subscriptions: () => subscriptions,
    ...(implemented.has("onLoad") && {
      // This context is kept forever: the plugin uses it for everything that it does outside events.
      onLoad: (ctx: PluginContext) => {
        const loading = session().callHost("onLoad", { ctx: parts.contexts.hold(ctx) });
        return within(timeouts.on_load_ms, "onLoad", explainFailure(loading)).then(toVoid);
      },
    }),
    ...(implemented.has("onEvent") && {
      onEvent: (event, ctx) =>
        withContext(parts, ctx, (ref) => session().callHost("event", { event, ctx: ref })).then(toVoid),
    }),
    ...(implemented.has("onUnload") && {
      async onUnload(ctx: PluginContext) {
        if (!parts.alive()) return;
        const unloading = withContext(parts, ctx, (ref) => session().callHost("unload", { ctx: ref }));
        await within(timeouts.unload_ms, "onUnload", unloading);
      },
    }),
    ...(implemented.has("healthCheck") && {
      healthCheck: (ctx) => withContext(parts, ctx, (ref) => session().callHost("health", { ctx: ref })),
    }),
    ...(implemented.has("onRequest") && {
      onRequest: (request, ctx) =>
        withContext(parts, ctx, (ref) => session().callHost("request", { request, ctx: ref })),
    }),
  } satisfies KernelPlugin;
  assertMatchesEntry(parts.entry, plugin);
  return plugin;
}

/** Which optional methods a tool has. */
export interface ToolMethods {
  brief: boolean;
  pre_approve: boolean;
}

export function proxyTool(
  parts: ProxyContext,
  tool: number,
  spec: KernelToolSpec,
  { brief, pre_approve }: ToolMethods,
): KernelTool {
  const { calls, explainFailure, session } = parts;
  return {
    ...spec,
    async run(args, call) {
      const call_id = parts.nextCall();
      const { as, deadline_at, id, invocation_id, session_id, signal } = call;
      const cancel = () => session().notify("cancel", { call_id });
      calls.set(call_id, call);
      signal.addEventListener("abort", cancel, { once: true });
      try {
        const call_fields = { call_id, as, deadline_at, id, invocation_id, session_id };
        const answer = explainFailure(session().callHost("tool", { tool, args, call: call_fields }));
        if (signal.aborted) cancel();
        return await answer;
      } finally {
        signal.removeEventListener("abort", cancel);
        calls.delete(call_id);
      }
    },
    ...(brief && { approvalBrief: (args) => explainFailure(session().callHost("brief", { tool, args })) }),
    ...(pre_approve && {
      preApprove: (args) => explainFailure(session().callHost("preApprove", { tool, args })),
    }),
  };
}

/** The process must match its package.json, which is what the operator approved. */
function assertMatchesEntry(entry: PluginEntry, plugin: KernelPlugin): void {
  const kinds: unknown = plugin.subscriptions();
  const listed = Array.isArray(kinds) && kinds.every((kind) => typeof kind === "string");
  const problem =
    findKernelPluginProblem(plugin, entry) ??
    (listed ? null : "subscriptions does not return a list of event kinds");
  if (problem === null) return;
  throw new BackplaneError("plugin.invalid", `The plugin ${entry.name} is not valid: ${problem}.`);
}

async function withContext<T>(
  { contexts, explainFailure }: ProxyContext,
  ctx: PluginContext,
  callHost: (ref: ReturnType<LiveContexts["hold"]>) => Promise<T>,
): Promise<T> {
  const ref = contexts.hold(ctx);
  try {
    return await explainFailure(callHost(ref));
  } finally {
    contexts.release(ref.id);
  }
}

function toVoid(): void {}
