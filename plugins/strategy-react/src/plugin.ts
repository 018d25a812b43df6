/**
 * The default strategy (strategy.react). The configuration is read again for every decision, and the active provider
 * for every model call.
 */
import {
  type AgentLoopState,
  type BusEvent,
  defineKernelPlugin,
  type HealthReport,
  type PluginContext,
} from "@backplane/sdk/kernel";
import { decide } from "./decide.ts";
import { CONFIG_SCHEMA, type ReactSettings, readSettings } from "./settings.ts";

export const plugin = defineKernelPlugin({
  name: "strategy-react",
  version: "0.1.0",
  category: "strategy",
  strategyId: "react",
  configSchema: CONFIG_SCHEMA,
  subscriptions: () => ["strategy.decide.request"],

  async onEvent(event: BusEvent, ctx: PluginContext): Promise<void> {
    if (event.kind !== "strategy.decide.request") return;
    const state = readState(event.payload.state);
    const { settings } = readSettings(await ctx.config());
    const decision = decide(state, settings);
    const target = decision.next === "llm" ? await resolveTarget(settings, ctx) : {};
    await ctx.emit(
      "strategy.decide.response",
      { ...decision, ...target, request_id: event.id },
      { session_id: event.session_id },
    );
  },

  async healthCheck(ctx: PluginContext): Promise<HealthReport> {
    try {
      return await checkHealth(ctx);
    } catch (error) {
      return { status: "failed", summary: `cannot read its configuration: ${(error as Error).message}` };
    }
  },
});

/**
 * A configured instance that was removed is still returned and fails visibly: a conversation must never be sent
 * to a vendor that it was not meant for. A model of "" selects the provider's own default; if it were
 * omitted, the active instance's model would apply.
 */
async function resolveTarget(
  settings: ReactSettings,
  ctx: PluginContext,
): Promise<{ provider?: string; model?: string }> {
  const provider = settings.provider ?? (await ctx.providers.activeId());
  if (provider === null) return {};
  const model = settings.model ?? (await ctx.providers.getInstance(provider))?.config.model;
  return { provider, model: typeof model === "string" ? model : "" };
}

async function checkHealth(ctx: PluginContext): Promise<HealthReport> {
  const { settings, problems } = readSettings(await ctx.config());
  const provider = settings.provider ?? (await ctx.providers.activeId());
  const instance = provider === null ? null : await ctx.providers.getInstance(provider);
  if (provider === null) problems.unshift("no provider configured");
  else if (instance === null) problems.unshift(`provider ${provider} is not configured`);
  if (problems.length === 0) return { status: "ok", summary: `answers with ${provider}` };
  return {
    status: "degraded",
    summary: problems[0]!,
    details: problems.map((message) => ({ name: "configuration", status: "degraded", message })),
  };
}

function readState(value: unknown): AgentLoopState {
  const state = value as Partial<AgentLoopState> | null | undefined;
  if (typeof state?.phase !== "string" || typeof state.input?.text !== "string") {
    throw new TypeError(
      "strategy.decide.request has no loop state; the kernel may have a different version.",
    );
  }
  return state as AgentLoopState;
}
