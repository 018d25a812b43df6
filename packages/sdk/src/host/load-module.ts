/** Loads the plugin that a module exports, and describes its fields, subscriptions and methods. */
import { pathToFileURL } from "node:url";
import {
  BackplaneError,
  type Json,
  type KernelPlugin,
  findKernelPluginProblem,
  PLUGIN_FIELDS,
  PLUGIN_METHODS,
  type PluginDescription,
} from "@backplane/contract";

/** Errors of the import are rethrown unchanged, so that the author's stack trace survives. */
export async function loadModule(module: string, name: string): Promise<KernelPlugin> {
  const exports = (await import(pathToFileURL(module).href)) as { plugin?: unknown; default?: unknown };
  // The exports of a CommonJS module may be available under `default` only.
  const plugin = exports.plugin ?? (exports.default as { plugin?: unknown } | undefined)?.plugin;
  if (plugin === undefined) {
    throw new BackplaneError("plugin.invalid", `The module of ${name} does not export \`plugin\`.`);
  }
  const problem = findKernelPluginProblem(plugin);
  if (problem !== null) {
    throw new BackplaneError("plugin.invalid", `The plugin ${name} is not valid: ${problem}.`);
  }
  return plugin as KernelPlugin;
}

export function describePlugin(plugin: KernelPlugin): PluginDescription {
  const fields: Record<string, Json | undefined> = {};
  for (const field of PLUGIN_FIELDS) {
    if (plugin[field] !== undefined) fields[field] = plugin[field] as unknown as Json;
  }
  return {
    fields: fields as unknown as PluginDescription["fields"],
    subscriptions: [...plugin.subscriptions()],
    methods: PLUGIN_METHODS.filter((method) => typeof plugin[method] === "function"),
  };
}
