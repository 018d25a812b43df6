/**
 * The context that a plugin receives (plug.context), scoped to one org and project. The plugin publishes its events in
 * that scope and reads the configuration of that org. The context of an unloaded plugin publishes no events, reads no
 * configuration, registers no tools and uses no services.
 */

import {
  BackplaneError,
  type BusPayload,
  type Json,
  type JsonObject,
  type KernelTool,
  type PluginContext,
  type PluginLog,
  pluginNamespace,
} from "@backplane/contract";
import type { Logger, Scope } from "@backplane/ports";
import { PublishRules } from "@backplane/session";
import { createProvidersView } from "../providers/view.ts";
import type { Instance } from "./instance.ts";
import type { LegacyResult } from "./legacy-calls.ts";
import type { PluginSystemDeps } from "./plugins-port.ts";
import type { ServiceAccess } from "./services.ts";
import type { PluginSubscriptions } from "./subscriptions.ts";

export interface PluginContextOptions {
  deps: Pick<PluginSystemDeps, "config" | "ids" | "loader" | "log">;
  subscriptions: PluginSubscriptions;
  service: ServiceAccess;
  /** Returns the scope of the call or request behind `as`, or null when `as` is not tied to one. */
  resolveScope(plugin: string, as: string): Scope | null;
  /** Subscribes plugins to the events of an org, if they are not subscribed yet. */
  subscribeOrg(org_id: string): void;
  register(instance: Instance, tool: KernelTool): void;
}

export function createPluginContext(
  options: PluginContextOptions,
  instance: Instance,
  scope: Scope,
): PluginContext {
  const { deps, subscriptions, service } = options;
  const { name, category } = instance.entry;
  const { org_id } = scope;

  function checkAlive(): void {
    if (instance.ended)
      throw new BackplaneError("cancelled", `${name} was unloaded; this context is closed.`);
  }

  async function emit<K extends string>(
    kind: K,
    payload: BusPayload<K>,
    { session_id, as }: { session_id: string; as?: string },
  ) {
    checkAlive();
    if (category === "tool" && kind === "tool.call.result") return acceptLegacyResult(payload, session_id);
    const target = (as === undefined ? null : options.resolveScope(name, as)) ?? scope;
    options.subscribeOrg(target.org_id);
    const where = { session_id, project_id: target.project_id };
    const { id } = await subscriptions.getPort(name, target.org_id).publish(kind, payload, where);
    return { id };
  }

  function acceptLegacyResult(payload: unknown, session_id: string): { id: string } {
    const rules = new PublishRules({ name, category, prefixes: [] });
    const result = rules.check("tool.call.result", payload, session_id) as LegacyResult;
    if (!instance.legacy.answer(result)) {
      const fields = { plugin: name, request_id: result.request_id ?? null, call_id: result.id };
      deps.log.warn(fields, "a tool.call.result that no call waits for was dropped");
    }
    return { id: deps.ids.next("event") };
  }

  return {
    name,
    stateDir: deps.loader.stateDir(name),
    log: createScopedLog(deps.log, name),
    providers: createProvidersView(deps, org_id, name),
    emit,
    async config() {
      checkAlive();
      const prefix = `plugin.${pluginNamespace(name)}.`;
      const flat: JsonObject = {};
      for (const [key, value] of await deps.config.list(org_id, prefix))
        flat[key.slice(prefix.length)] = value;
      return flat;
    },
    async registerTool(tool) {
      checkAlive();
      if (category !== "tool") {
        const message = `${name} may not register a tool, because its category is ${category}.`;
        throw new BackplaneError("policy.denied", message, {
          fix: "Tools come from plugins of category tool.",
        });
      }
      options.register(instance, tool);
    },
    async service(service_name, args, as): Promise<Json> {
      checkAlive();
      return await service(instance.entry, service_name, args, as, scope);
    },
  };
}

function createScopedLog(log: Logger, plugin: string): PluginLog {
  const atLevel =
    (level: keyof Logger): PluginLog[keyof PluginLog] =>
    (fields, message) =>
      log[level]({ ...fields, plugin }, message);
  return { debug: atLevel("debug"), info: atLevel("info"), warn: atLevel("warn"), error: atLevel("error") };
}
