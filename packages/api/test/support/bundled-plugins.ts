/** Kernel plugins for tests, all inline: bundled ones by name and others as values. */
import { mkdtempSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { pathToFileURL } from "node:url";
import type { KernelPlugin, PluginEntry } from "@backplane/contract";
import type { PluginLoader } from "@backplane/ports";

export async function loadBundledPlugins(
  ...requested_plugins: (string | KernelPlugin)[]
): Promise<PluginLoader> {
  const plugins = new Map<string, KernelPlugin>();
  const entries: PluginEntry[] = [];
  for (const requested of requested_plugins) {
    const plugin = typeof requested === "string" ? await importPlugin(requested) : requested;
    const { name, version, category } = plugin;
    plugins.set(name, plugin);
    const origin = typeof requested === "string" ? "bundled" : "installed";
    entries.push({ name, version, category, origin, source: name, dir: "/", module: `/${name}.ts` });
  }
  const dir = mkdtempSync(join(tmpdir(), "backplane-plugins-"));
  const refuse = async () => {
    throw new Error("this test installs nothing");
  };
  return {
    discover: async () => ({ entries, problems: [] }),
    load: async ({ name }) => ({ plugin: plugins.get(name)!, close: async () => {}, onExit() {} }),
    inspect: refuse,
    install: refuse,
    remove: refuse,
    stateDir: () => dir,
  };
}

async function importPlugin(name: string): Promise<KernelPlugin> {
  const file = pathToFileURL(resolve("plugins", name, "src/plugin.ts")).href;
  return ((await import(file)) as { plugin: KernelPlugin }).plugin;
}
