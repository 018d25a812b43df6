/** A scripted kernel context that records the events, log lines and tools of a plugin. */
import type { Json, JsonObject, KernelTool, PluginContext, ProviderInstance } from "@backplane/contract";

interface EmittedEvent {
  kind: string;
  payload: Record<string, unknown>;
  session_id: string;
  as?: string;
}

export interface ScriptedContext extends PluginContext {
  readonly emitted: EmittedEvent[];
  readonly logged: { level: string; message: string }[];
  readonly tools: KernelTool[];
}

export interface Script {
  name?: string;
  stateDir?: string;
  config?: () => JsonObject;
  instances?: () => ProviderInstance[];
  active?: () => string | null;
  service?: (name: string, args: JsonObject, as?: string) => Promise<Json>;
}

export function scriptedContext(script: Script = {}): ScriptedContext {
  const emitted: EmittedEvent[] = [];
  const logged: { level: string; message: string }[] = [];
  const tools: KernelTool[] = [];
  const log = (level: string) => (_fields: Record<string, unknown>, message: string) => {
    logged.push({ level, message });
  };
  const instances = script.instances ?? (() => []);
  return {
    name: script.name ?? "scripted",
    stateDir: script.stateDir ?? "/nonexistent",
    emitted,
    logged,
    tools,
    log: { debug: log("debug"), info: log("info"), warn: log("warn"), error: log("error") },
    providers: {
      listInstances: async () => instances(),
      instancesForPlugin: async (plugin) => instances().filter((instance) => instance.plugin === plugin),
      getInstance: async (id) => instances().find((instance) => instance.id === id) ?? null,
      activeId: async () => script.active?.() ?? null,
    },
    async emit(kind, payload, options) {
      emitted.push({ kind, payload: payload as Record<string, unknown>, ...options });
      return { id: `evt_${emitted.length}` };
    },
    config: async () => script.config?.() ?? {},
    async registerTool(tool) {
      tools.push(tool);
    },
    async service(name, args, as) {
      if (script.service === undefined) throw new Error(`no service ${name}`);
      return script.service(name, args, as);
    },
  };
}
