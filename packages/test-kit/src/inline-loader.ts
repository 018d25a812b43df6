/** A plugin loader that offers plain objects as bundled plugins. */
import type { KernelPlugin } from "@backplane/contract";
import type { PluginLoader } from "@backplane/ports";

export function createInlineLoader(plugins: readonly KernelPlugin[], stateDir: () => string): PluginLoader {
  const by_name = new Map(plugins.map((plugin) => [plugin.name, plugin]));
  return {
    discover: async () => ({
      entries: plugins.map(({ name, version, category }) => ({
        name,
        version,
        category,
        origin: "bundled" as const,
        source: name,
        dir: "",
        module: "",
      })),
      problems: [],
    }),
    load: async ({ name }) => ({ plugin: by_name.get(name)!, close: async () => {}, onExit: () => {} }),
    inspect: async () => [],
    install: async () => [],
    remove: async () => {},
    stateDir,
  };
}
