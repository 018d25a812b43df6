/**
 * `plugins_list`, `plugin_install` and `plugin_unload` (instr.admin): core tools with which an admin's agent
 * manages instrument plugins. They act on behalf of the caller of the turn, and the tools that change something
 * need approval.
 */

import {
  BackplaneError,
  EXECUTION_CLASSES,
  type ExecutionClass,
  type Json,
  type JsonObject,
  type KernelToolSpec,
  type ToolReturn,
  toBackplaneError,
} from "@backplane/contract";
import { createCoreTool } from "@backplane/door";
import type { Caller, InstrumentsFacade, RegisteredTool } from "@backplane/ports";

interface AdminTool {
  spec: KernelToolSpec;
  brief: (args: JsonObject) => string | null;
  run: (caller: Caller, args: JsonObject) => Promise<{ brief: string; data: Json }>;
}

export function createInstrumentAdminTools(
  instruments: InstrumentsFacade,
  version: string,
  /** Returns the caller of the turn; null outside a turn. */
  findCaller: (as: string) => Caller | null,
): RegisteredTool[] {
  return createTools(instruments).map(({ brief, run, spec }) =>
    createCoreTool(version, {
      spec,
      brief: async (args) => brief(args),
      run: async (args, call) => {
        try {
          const caller = findCaller(call.as);
          if (caller === null) {
            throw new BackplaneError(
              "auth.missing",
              `${spec.name} needs the caller of a turn; call it in a session.`,
            );
          }
          const result = await run(caller, args);
          return { ok: true, brief: result.brief, display: { kind: "json", data: result.data } };
        } catch (error) {
          return toFailedReturn(error);
        }
      },
    }),
  );
}

function createTools(instruments: InstrumentsFacade): AdminTool[] {
  return [
    {
      spec: {
        name: "plugins_list",
        description:
          "Lists the bound instrument plugins, whether they run, and their instruments. Admins only.",
        parameters: { type: "object", properties: {}, additionalProperties: false },
        effect_class: "read_only",
        risk: "high",
      },
      brief: () => null,
      async run(caller) {
        const plugins = await instruments.list(caller);
        return { brief: `${plugins.length} plugins`, data: plugins as unknown as Json };
      },
    },
    {
      spec: {
        name: "plugin_install",
        description:
          "Installs and loads an instrument plugin from a folder, zip or jar on the gateway's machine. Admins only.",
        parameters: {
          type: "object",
          properties: {
            path: {
              type: "string",
              minLength: 1,
              maxLength: 4_096,
              description: "Absolute path on the gateway's machine.",
            },
            config: { type: "object", description: "The plugin's settings." },
            class: {
              enum: [...EXECUTION_CLASSES],
              description:
                "Default: isolated. inline runs the code in the gateway's own process, with all its permissions.",
            },
          },
          required: ["path"],
          additionalProperties: false,
        },
        requires_approval: true,
        effect_class: "unknown",
        risk: "high",
        timeout_ms: 120_000,
      },
      brief: (args) =>
        `install the plugin ${args.path as string}${args.class === "inline" ? " inline, in the gateway's own process" : ""}`,
      async run(caller, args) {
        const {
          class: execution_class,
          config,
          path,
        } = args as { path: string; config?: JsonObject; class?: ExecutionClass };
        const plugin = await instruments.install(caller, path, {
          ...(config === undefined ? {} : { config }),
          ...(execution_class === undefined ? {} : { class: execution_class }),
        });
        return {
          brief: `${plugin.plugin_id} ${plugin.version}: ${plugin.state}`,
          data: plugin as unknown as Json,
        };
      },
    },
    {
      spec: {
        name: "plugin_unload",
        description:
          "Unloads an instrument plugin and removes its instruments; its package, settings and data stay. Admins only.",
        parameters: {
          type: "object",
          properties: { plugin_id: { type: "string", minLength: 1, maxLength: 64 } },
          required: ["plugin_id"],
          additionalProperties: false,
        },
        requires_approval: true,
        effect_class: "unknown",
        risk: "high",
      },
      brief: (args) => `unload the plugin ${args.plugin_id as string}`,
      async run(caller, args) {
        const { plugin_id } = args as { plugin_id: string };
        await instruments.unload(caller, plugin_id);
        return { brief: `${plugin_id} is unloaded`, data: { plugin_id } };
      },
    },
  ];
}

function toFailedReturn(error: unknown): ToolReturn {
  const { code, message } = toBackplaneError(error);
  const kind = code === "policy.denied" || code === "auth.missing" ? "rejected" : "internal";
  return { ok: false, kind, brief: code, display: { kind: "text", text: `${code}: ${message}` } };
}
