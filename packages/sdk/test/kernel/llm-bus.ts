/**
 * A bus with one plugin: events in, emitted events out, checked against the catalog, with two organizations and a
 * configurable delay.
 */
import type {
  BusEvent,
  JsonObject,
  KernelPlugin,
  PluginContext,
  ProviderInstance,
} from "@backplane/contract";
import { BUS_PAYLOADS } from "@backplane/contract/schema";

export interface EmittedEvent {
  kind: string;
  org_id: string;
  session_id: string;
  payload: Record<string, unknown>;
}

export interface SendOptions {
  org_id?: string;
  session_id?: string;
}

export class LlmBus {
  readonly emitted: EmittedEvent[] = [];
  readonly instances: Record<string, ProviderInstance[]> = { org_a: [], org_b: [] };
  active: string | null = null;
  /** Runs before the bus accepts each event. */
  delay: () => Promise<void> = async () => {};
  readonly #plugin: KernelPlugin;
  readonly #watchers = new Set<() => void>();
  #ids = 0;

  constructor(plugin: KernelPlugin, instances: ProviderInstance[] = []) {
    this.#plugin = plugin;
    this.instances.org_a = instances;
  }

  /** Starts the handler; the promise settles when the handler ends. */
  send(kind: string, payload: JsonObject, options: SendOptions = {}): { id: string; handled: Promise<void> } {
    const { org_id = "org_a", session_id = "s1" } = options;
    const id = `evt_${++this.#ids}`;
    const event = { id, kind, session_id, ts: 0, source: "kernel", org_id, project_id: "proj", payload };
    const handled = Promise.resolve(this.#plugin.onEvent?.(event as BusEvent, this.context(org_id)));
    return { id, handled };
  }

  /** Sends a model call. */
  request(payload: Partial<Record<string, unknown>> = {}, options?: SendOptions) {
    const request = {
      provider: "main",
      model: "m1",
      messages: [{ role: "user", content: "hi" }],
      params: {},
      ...payload,
    };
    return this.send("llm.call.request", request as JsonObject, options);
  }

  /** Sends a request, waits for its end event and returns that event. */
  async call(payload: Partial<Record<string, unknown>> = {}, options?: SendOptions): Promise<EmittedEvent> {
    const { id, handled } = this.request(payload, options);
    await handled;
    const ends = this.eventsOf(id).filter((event) => event.kind !== "llm.call.delta");
    if (ends.length !== 1) throw new Error(`expected one end event, got ${ends.length}`);
    return ends[0]!;
  }

  eventsOf(request_id: string): EmittedEvent[] {
    return this.emitted.filter((event) => event.payload.request_id === request_id);
  }

  async until(holds: () => boolean): Promise<void> {
    while (!holds()) await new Promise<void>((resolve) => this.#watchers.add(resolve));
  }

  /** Deltas, in order, without their request_id. */
  deltas(): Record<string, unknown>[] {
    return this.emitted
      .filter((event) => event.kind === "llm.call.delta")
      .map(({ payload }) => {
        const { request_id: _, ...rest } = payload;
        return rest;
      });
  }

  context(org_id = "org_a"): PluginContext {
    const log = () => undefined;
    const all = () => structuredClone(this.instances[org_id] ?? []);
    return {
      name: this.#plugin.name,
      stateDir: "/nowhere",
      log: { debug: log, info: log, warn: log, error: log },
      providers: {
        listInstances: async () => all(),
        instancesForPlugin: async (plugin) => all().filter((instance) => instance.plugin === plugin),
        getInstance: async (id) => all().find((instance) => instance.id === id) ?? null,
        activeId: async () => this.active,
      },
      emit: async (kind, payload, { session_id }) => {
        await this.delay();
        const value = JSON.parse(JSON.stringify(payload)) as Record<string, unknown>;
        BUS_PAYLOADS[kind as keyof typeof BUS_PAYLOADS].parse(value);
        this.emitted.push({ kind, org_id, session_id, payload: value });
        for (const notify of this.#watchers) notify();
        this.#watchers.clear();
        return { id: `out_${this.emitted.length}` };
      },
      config: async () => ({}),
      registerTool: async () => undefined,
      service: async () => null,
    };
  }
}

export function createInstance(plugin: string, config: JsonObject = {}, id = "main"): ProviderInstance {
  return { id, plugin, label: id, config };
}
