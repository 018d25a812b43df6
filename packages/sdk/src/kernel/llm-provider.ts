/**
 * Wraps a vendor as a kernel plugin (llm.provider, llm.instances). One plugin owns many configured instances,
 * in many organizations; each instance has its own provider, created at its first call and again only when its own
 * configuration changes. A running call keeps the provider that it started with.
 */
import {
  type BusEvent,
  canonicalJson,
  type HealthReport,
  type HealthStatus,
  type JsonObject,
  type KernelPlugin,
  type LlmFailure,
  type LlmProtocol,
  type LlmProvider,
  type PluginContext,
  type ProviderInstance,
} from "@backplane/contract";
import { LlmCallError } from "./llm-failure.ts";
import { INTERRUPTED, runCall } from "./llm-run-call.ts";

export interface LlmProviderOptions {
  /** Kebab-case; the value of `providers.<id>.plugin`. */
  name: string;
  version: string;
  /** JSON Schema of an instance's fields. `model` and `timeout_s` are also read here. */
  configSchema: JsonObject;
  /** The protocols of `GenerateRequest.native` that some instance may accept. */
  protocols?: readonly LlmProtocol[];
  /** Must neither block nor connect. */
  create(instance: ProviderInstance): LlmProvider;
  /** Classifies an error of the vendor's SDK. The default looks at the error's shape (`classifyFailure`). */
  classify?: (error: unknown) => LlmFailure;
  /** Whether an instance can be called, decided without network access. The default is yes. */
  healthCheck?(instance: ProviderInstance): InstanceHealth;
}

export interface InstanceHealth {
  status: HealthStatus;
  message?: string;
  /** The configuration key to set, if that is the problem. */
  config_key?: string;
}

export function llmProviderPlugin(options: LlmProviderOptions): KernelPlugin {
  const { name, version, configSchema, classify, protocols } = options;
  const instances = new Instances(options);
  const calls = new Calls();
  return {
    name,
    version,
    category: "llm-provider",
    providerId: name,
    ...(protocols === undefined ? {} : { protocols }),
    configSchema,
    subscriptions: () => ["llm.call.request", "user.interrupt", "config.updated"],
    onEvent(event, ctx) {
      if (isKind(event, "llm.call.request")) {
        return calls.run(event, async (controller) => {
          const instance = await instances.find(event.payload.provider, ctx);
          if (instance === null) return;
          const provider = () => instances.getProvider(event.org_id, instance);
          await runCall({ event, ctx, instance, provider, controller, ...(classify ? { classify } : {}) });
        });
      }
      if (event.kind === "user.interrupt") calls.interrupt(event);
      else if (isKind(event, "config.updated")) return instances.reload(event, ctx);
    },
    onUnload: () => calls.end(name),
    healthCheck: (ctx) => checkInstances(options, ctx),
  };
}

/** The providers created so far, by organization and instance id. */
class Instances {
  readonly #options: LlmProviderOptions;
  readonly #providers = new Map<string, { config: string; provider: LlmProvider }>();

  constructor(options: LlmProviderOptions) {
    this.#options = options;
  }

  /**
   * Null for an instance of another plugin, which answers instead. If no instance has the plugin's own name, the name
   * stands for an instance with the plugin's own configuration (`plugin.<ns>.*`), so that configurations that predate
   * instances keep working.
   */
  async find(id: string, ctx: PluginContext): Promise<ProviderInstance | null> {
    const { name } = this.#options;
    const instance = await ctx.providers.getInstance(id);
    if (instance === null && id === name)
      return { id, plugin: name, label: name, config: await ctx.config() };
    return instance?.plugin === name ? instance : null;
  }

  /** Compares with the configuration just read, so a write applies before its change event arrives. */
  getProvider(org_id: string, instance: ProviderInstance): LlmProvider {
    const key = joinKey(org_id, instance.id);
    const config = canonicalJson(instance.config);
    const cached = this.#providers.get(key);
    if (cached?.config === config) return cached.provider;
    const provider = this.#options.create(instance);
    this.#providers.set(key, { config, provider });
    return provider;
  }

  /**
   * Drops the provider of an instance whose configuration changed or was removed; the next call creates a new one.
   * Nothing is closed, because a call may still use the old provider.
   */
  async reload(event: BusEvent<"config.updated">, ctx: PluginContext): Promise<void> {
    const [root, id, ...field] = event.payload.key.split(".");
    if (root !== "providers" || id === undefined || field.length === 0) return;
    const key = joinKey(event.org_id, id);
    if (!this.#providers.has(key)) return;
    const instance = await this.find(id, ctx);
    const cached = this.#providers.get(key);
    if (instance === null || cached?.config !== canonicalJson(instance.config)) this.#providers.delete(key);
  }
}

/** The calls in flight, by session, so that an interrupt or an unload reaches them. */
class Calls {
  readonly #running = new Map<string, Set<AbortController>>();
  readonly #ends = new Set<Promise<void>>();

  /** Registers the call before the first await, because the interrupt may be the very next event. */
  async run(event: BusEvent, work: (controller: AbortController) => Promise<void>): Promise<void> {
    const session = sessionOf(event);
    const controller = new AbortController();
    const running = this.#running.get(session) ?? new Set();
    this.#running.set(session, running.add(controller));
    const end = work(controller).finally(() => {
      running.delete(controller);
      if (running.size === 0 && this.#running.get(session) === running) this.#running.delete(session);
      this.#ends.delete(end);
    });
    this.#ends.add(end);
    await end;
  }

  interrupt(event: BusEvent): void {
    for (const controller of this.#running.get(sessionOf(event)) ?? []) controller.abort(INTERRUPTED);
  }

  /** Aborts all calls. Each emits a connection error, so that nobody waits for an answer that cannot come. */
  async end(name: string): Promise<void> {
    const reason = new LlmCallError({ kind: "connection", message: `The plugin ${name} was unloaded.` });
    for (const running of this.#running.values()) {
      for (const controller of running) controller.abort(reason);
    }
    await Promise.allSettled(this.#ends);
  }
}

async function checkInstances(options: LlmProviderOptions, ctx: PluginContext): Promise<HealthReport> {
  const [instances, active] = await Promise.all([
    ctx.providers.instancesForPlugin(options.name),
    ctx.providers.activeId(),
  ]);
  const unused = instances.filter((instance) => isUnused(instance, active));
  const details = instances.map((instance) => ({
    name: instance.id,
    ...(unused.includes(instance)
      ? { status: "ok" as const, message: "not set up" }
      : (options.healthCheck?.(instance) ?? { status: "ok" as const })),
  }));
  const unhealthy = details.filter(({ status }) => status !== "ok");
  if (unhealthy.length === 0) {
    const ready = details.length - unused.length;
    return {
      status: "ok",
      summary:
        ready === 0 && unused.length > 0 ? "not set up" : `${ready} instance${ready === 1 ? "" : "s"} ready`,
      details,
    };
  }
  const status = unhealthy.some((check) => check.status === "failed") ? "failed" : "degraded";
  return {
    status,
    summary: unhealthy.map((check) => `${check.name}: ${check.message ?? check.status}`).join("; "),
    details,
  };
}

/** Every provider plugin has an instance with its own name, which counts as healthy until somebody sets it up. */
function isUnused({ id, plugin, config }: ProviderInstance, active: string | null): boolean {
  return id === plugin && id !== active && Object.keys(config).length === 0;
}

function isKind<K extends string>(event: BusEvent, kind: K): event is BusEvent<K> {
  return event.kind === kind;
}

function joinKey(org_id: string, id: string): string {
  return `${org_id} ${id}`;
}

function sessionOf({ org_id, project_id, session_id }: BusEvent): string {
  return JSON.stringify([org_id, project_id, session_id]);
}
