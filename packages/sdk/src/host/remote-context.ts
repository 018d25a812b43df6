/**
 * A PluginContext on the plugin's side of the pipe. Each one refers to the context that the kernel created, so an
 * action on an event's context applies to the organization and project of that event, no matter how late the action
 * happens.
 */
import {
  type ContextRef,
  type JsonObject,
  KERNEL_TOOL_FIELDS,
  type KernelTool,
  type KernelToolSpec,
  type PluginContext,
  type PluginLogLevel,
} from "@backplane/contract";
import type { GatewayLink } from "./gateway-link.ts";

/** Tools that this process has registered, by the number that the gateway uses to call them. */
export type RegisteredTools = Map<number, KernelTool>;

export function createRemoteContext(
  ref: ContextRef,
  link: GatewayLink,
  tools: RegisteredTools,
): PluginContext {
  const ctx = ref.id;
  const log = (level: PluginLogLevel) => (fields: Record<string, unknown>, message: string) =>
    link.notify("log", { ctx, level, fields: logFields(fields), message: String(message) });
  return {
    name: ref.name,
    stateDir: ref.state_dir,
    log: { debug: log("debug"), info: log("info"), warn: log("warn"), error: log("error") },
    providers: {
      listInstances: () => link.request("providers.list", { ctx }),
      instancesForPlugin: (plugin) => link.request("providers.for_plugin", { ctx, plugin }),
      getInstance: (id) => link.request("providers.get", { ctx, id }),
      activeId: () => link.request("providers.active", { ctx }),
    },
    emit: (kind, payload, { session_id, as }) =>
      link.request("emit", {
        ctx,
        kind,
        payload: payload as unknown as JsonObject,
        session_id,
        ...(as === undefined ? {} : { as }),
      }),
    config: () => link.request("config", { ctx }),
    async registerTool(tool) {
      const id = tools.size + 1;
      // The tool is stored before it is announced, because the gateway may call it before it confirms the
      // registration.
      tools.set(id, tool);
      const brief = typeof tool.approvalBrief === "function";
      const pre_approve = typeof tool.preApprove === "function";
      await link.request("registerTool", { ctx, tool: id, spec: specOf(tool), brief, pre_approve });
    },
    service: (name, args, as) =>
      link.request("service", as === undefined ? { ctx, name, args } : { ctx, name, args, as }),
  };
}

/** Fields are copied by name: a tool may be an instance of a class, whose getters a spread would miss. */
function specOf(tool: KernelTool): KernelToolSpec {
  const fields = KERNEL_TOOL_FIELDS.filter((field) => tool[field] !== undefined);
  return Object.fromEntries(fields.map((field) => [field, tool[field]])) as unknown as KernelToolSpec;
}

/** Errors have no enumerable fields and cyclic values have no JSON; a log line must survive both. */
function logFields(fields: Record<string, unknown>): JsonObject {
  try {
    return JSON.parse(
      JSON.stringify(fields ?? {}, (_key, value: unknown) =>
        value instanceof Error ? { name: value.name, message: value.message, stack: value.stack } : value,
      ),
    ) as JsonObject;
  } catch {
    return { fields: "not JSON" };
  }
}
