/**
 * Runs a kernel plugin in memory for a test, with a scripted context, and records what the plugin emits, logs,
 * registers and reports as progress.
 */
import { mkdtempSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import {
  type AdapterRequest,
  type AdapterResponse,
  BackplaneError,
  type BusEvent,
  type HealthReport,
  type Json,
  type JsonObject,
  type KernelPlugin,
  type KernelTool,
  findKernelPluginProblem,
  type PluginContext,
  type PluginLogLevel,
  type ProviderInstance,
  type StopSignal,
  type ToolReturn,
} from "@backplane/contract";

export interface KernelTestOptions {
  config?: JsonObject;
  providers?: ProviderInstance[];
  active_provider?: string | null;
  /** Kernel services by name; any other is refused as not granted. */
  services?: Record<string, (args: JsonObject, as: string | undefined) => Json | Promise<Json>>;
  /** Default: a new folder under the system's temporary folder, created on first use and not removed. */
  state_dir?: string;
  org_id?: string;
  project_id?: string | null;
}

export interface EmittedEvent {
  id: string;
  kind: string;
  session_id: string;
  payload: Record<string, unknown>;
}

export interface KernelTestRun {
  readonly ctx: PluginContext;
  readonly emitted: readonly EmittedEvent[];
  readonly logs: readonly { level: PluginLogLevel; fields: Record<string, unknown>; message: string }[];
  readonly tools: ReadonlyMap<string, KernelTool>;
  /** The progress that tool calls reported, in order. */
  readonly progress: readonly JsonObject[];
  /** Changes the result of `ctx.config()` from now on. */
  setConfig(config: JsonObject): void;
  setProviders(providers: ProviderInstance[], active?: string | null): void;
  event(kind: string, payload: Record<string, unknown>, options?: { session_id?: string }): Promise<BusEvent>;
  tool(name: string, args: JsonObject, options?: { signal?: StopSignal; as?: string }): Promise<ToolReturn>;
  request(route: string, request?: Partial<Omit<AdapterRequest, "route">>): Promise<AdapterResponse>;
  health(): Promise<HealthReport>;
  unload(): Promise<void>;
  /** Resolves with the first event of this kind, past or future. */
  waitFor(kind: string): Promise<EmittedEvent>;
}

/** Validates the plugin and loads it. */
export async function testKernelPlugin(
  plugin: KernelPlugin,
  options: KernelTestOptions = {},
): Promise<KernelTestRun> {
  const problem = findKernelPluginProblem(plugin);
  if (problem !== null) throw new BackplaneError("plugin.invalid", `The plugin is not valid: ${problem}.`);
  const emitted: EmittedEvent[] = [];
  const logs: { level: PluginLogLevel; fields: Record<string, unknown>; message: string }[] = [];
  const tools = new Map<string, KernelTool>();
  const progress: JsonObject[] = [];
  const waiting = new Set<{ kind: string; resolve: (event: EmittedEvent) => void }>();
  let config = options.config ?? {};
  let providers = options.providers ?? [];
  let active = options.active_provider ?? null;
  let state_dir = options.state_dir;
  let ids = 0;
  const log = (level: PluginLogLevel) => (fields: Record<string, unknown>, message: string) => {
    logs.push({ level, fields, message });
  };
  const ctx: PluginContext = {
    name: plugin.name,
    get stateDir() {
      state_dir ??= mkdtempSync(join(tmpdir(), "backplane-kernel-test-"));
      return state_dir;
    },
    log: { debug: log("debug"), info: log("info"), warn: log("warn"), error: log("error") },
    providers: {
      listInstances: async () => structuredClone(providers),
      instancesForPlugin: async (name) =>
        structuredClone(providers.filter((provider) => provider.plugin === name)),
      getInstance: async (id) => structuredClone(providers.find((provider) => provider.id === id) ?? null),
      activeId: async () => active,
    },
    async emit(kind, payload, { session_id }) {
      const event = { id: `event-${++ids}`, kind, session_id, payload: asJson(payload) };
      emitted.push(event);
      for (const waiter of waiting) if (waiter.kind === kind && waiting.delete(waiter)) waiter.resolve(event);
      return { id: event.id };
    },
    config: async () => structuredClone(config),
    async registerTool(tool) {
      if (plugin.category !== "tool") {
        throw new BackplaneError("plugin.invalid", "Only plugins of category tool register tools.");
      }
      if (tools.has(tool.name)) {
        throw new BackplaneError("plugin.invalid", `A tool named ${tool.name} is already registered.`);
      }
      tools.set(tool.name, tool);
    },
    async service(name, args, as) {
      const serve = options.services?.[name];
      if (serve === undefined) throw new BackplaneError("policy.denied", `${name} is not granted.`);
      return await serve(args, as);
    },
  };
  await plugin.onLoad?.(ctx);
  return {
    ctx,
    emitted,
    logs,
    tools,
    progress,
    setConfig(next) {
      config = next;
    },
    setProviders(next, id = active) {
      providers = next;
      active = id;
    },
    async event(kind, payload, { session_id = "test" } = {}) {
      const event: BusEvent = {
        id: `event-${++ids}`,
        kind,
        session_id,
        ts: Date.now() / 1000,
        source: "kernel",
        org_id: options.org_id ?? "org_local",
        project_id: options.project_id === undefined ? "proj_default" : options.project_id,
        payload: asJson(payload),
      };
      await plugin.onEvent?.(event, ctx);
      return event;
    },
    async tool(name, args, { as = "test", signal = new AbortController().signal } = {}) {
      const tool = tools.get(name);
      if (tool === undefined) throw new BackplaneError("export.not_found", `There is no tool ${name}.`);
      const id = `call-${++ids}`;
      return await tool.run(args, {
        id,
        invocation_id: id,
        session_id: "test",
        deadline_at: new Date(Date.now() + 30_000).toISOString(),
        signal,
        as,
        progress: (event) => void progress.push(event),
      });
    },
    async request(route, request = {}) {
      if (plugin.onRequest === undefined)
        throw new BackplaneError("route.not_found", `${plugin.name} has no routes.`);
      return await plugin.onRequest(
        { params: {}, query: {}, body: null, as: "test", ...request, route },
        ctx,
      );
    },
    health: async () =>
      (await plugin.healthCheck?.(ctx)) ?? { status: "ok", summary: "no checks registered" },
    async unload() {
      await plugin.onUnload?.(ctx);
    },
    waitFor(kind) {
      const match = emitted.find((event) => event.kind === kind);
      if (match !== undefined) return Promise.resolve(match);
      return new Promise((resolve) => waiting.add({ kind, resolve }));
    },
  };
}

/** Copies the event as the bus does: values that are not JSON are lost. */
function asJson(payload: unknown): Record<string, unknown> {
  return JSON.parse(JSON.stringify(payload)) as Record<string, unknown>;
}
