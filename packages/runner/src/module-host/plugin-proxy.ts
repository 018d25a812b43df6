/** A KernelPlugin whose methods go over the pipe: what the kernel holds instead of the plugin itself. */
import {
  BackplaneError,
  type KernelPlugin,
  type KernelTool,
  type KernelToolCall,
  type KernelToolSpec,
  kernelPluginProblem,
  type PluginContext,
  type PluginDescription,
  type PluginEntry,
} from "@backplane/contract";
import type { LiveContexts } from "./live-contexts.ts";
import type { ModuleSession } from "./module-session.ts";

export interface StandInParts {
  entry: PluginEntry;
  contexts: LiveContexts;
  calls: Map<number, KernelToolCall>;
  /** A number that no call of this process has had. */
  nextCall: () => number;
  session: () => ModuleSession;
  alive: () => boolean;
  /** Turns the end of the pipe into what is known about the process's end. */
  explained: <T>(answer: Promise<T>) => Promise<T>;
  /** Kills the process when it takes longer. */
  within: <T>(ms: number, what: string, answer: Promise<T>) => Promise<T>;
  timeouts: { on_load_ms: number; unload_ms: number };
}

export function standInPlugin(parts: StandInParts, description: PluginDescription): KernelPlugin {
  const { explained, session, timeouts, within } = parts;
  const { fields, methods, subscriptions } = description;
  const has = new Set(methods);
  const plugin: KernelPlugin = {
    ...fields,
    subscriptions: () => subscriptions,
    ...(has.has("onLoad") && {
      // Its context is held for good: it serves whatever the plugin does outside of events.
      onLoad: (ctx: PluginContext) => {
        const loading = session().ask("onLoad", { ctx: parts.contexts.hold(ctx) });
        return within(timeouts.on_load_ms, "onLoad", explained(loading)).then(nothing);
      },
    }),
    ...(has.has("onEvent") && {
      onEvent: (event, ctx) =>
        holding(parts, ctx, (ref) => session().ask("event", { event, ctx: ref })).then(nothing),
    }),
    ...(has.has("onUnload") && {
      async onUnload(ctx: PluginContext) {
        if (!parts.alive()) return;
        const unloading = holding(parts, ctx, (ref) => session().ask("unload", { ctx: ref }));
        await within(timeouts.unload_ms, "onUnload", unloading);
      },
    }),
    ...(has.has("healthCheck") && {
      healthCheck: (ctx) => holding(parts, ctx, (ref) => session().ask("health", { ctx: ref })),
    }),
    ...(has.has("onRequest") && {
      onRequest: (request, ctx) =>
        holding(parts, ctx, (ref) => session().ask("request", { request, ctx: ref })),
    }),
  } satisfies KernelPlugin;
  mustBe(parts.entry, plugin);
  return plugin;
}

export function standInTool(
  parts: StandInParts,
  tool: number,
  spec: KernelToolSpec,
  brief: boolean,
): KernelTool {
  const { calls, explained, session } = parts;
  return {
    ...spec,
    async run(args, call) {
      const call_id = parts.nextCall();
      const { as, deadline_at, id, invocation_id, session_id, signal } = call;
      const cancel = () => session().tell("cancel", { call_id });
      calls.set(call_id, call);
      signal.addEventListener("abort", cancel, { once: true });
      try {
        const order = { call_id, as, deadline_at, id, invocation_id, session_id };
        const answer = explained(session().ask("tool", { tool, args, call: order }));
        if (signal.aborted) cancel();
        return await answer;
      } finally {
        signal.removeEventListener("abort", cancel);
        calls.delete(call_id);
      }
    },
    ...(brief && { approvalBrief: (args) => explained(session().ask("brief", { tool, args })) }),
  };
}

/** The process must be what package.json announced: that is what the operator agreed to. */
function mustBe(entry: PluginEntry, plugin: KernelPlugin): void {
  const kinds: unknown = plugin.subscriptions();
  const listed = Array.isArray(kinds) && kinds.every((kind) => typeof kind === "string");
  const problem =
    kernelPluginProblem(plugin, entry) ?? (listed ? null : "subscriptions gives no list of event kinds");
  if (problem === null) return;
  throw new BackplaneError("plugin.invalid", `The plugin ${entry.name} is not valid: ${problem}.`);
}

async function holding<T>(
  { contexts, explained }: StandInParts,
  ctx: PluginContext,
  ask: (ref: ReturnType<LiveContexts["hold"]>) => Promise<T>,
): Promise<T> {
  const ref = contexts.hold(ctx);
  try {
    return await explained(ask(ref));
  } finally {
    contexts.release(ref.id);
  }
}

function nothing(): void {}
