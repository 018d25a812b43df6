/**
 * Where kernel plugins come from and go to. Nothing of a package is executed here, neither to find it nor to install
 * it (plug.trust). Changes take turns.
 */
import { mkdir } from "node:fs/promises";
import { BackplaneError, type PluginEntry } from "@backplane/contract";
import type { DiscoveredPlugins } from "@backplane/ports";
import { validateInstallSource } from "../npm/install-source.ts";
import { createNpm, type Npm } from "../npm/npm-command.ts";
import { discoverPlugins } from "./discover.ts";
import { inspectSource } from "./inspect.ts";
import { type InstallParts, installSource, removeEntry, sweepCopies } from "./install.ts";
import { forgetInstalled, noteInstalled, withDates } from "./install-meta.ts";
import { NpmTree } from "./npm-tree.ts";
import { conditionsOf } from "./resolve-module.ts";

export interface PluginSourcesOptions {
  /** `<home>/plugins`. */
  home_plugins_dir: string;
  /** Folders of packages that come with the gateway, in the order in which they were named. */
  bundled_roots: readonly string[];
  npm?: Npm;
  /** Conditions for `exports`; those that this process runs with if left out. */
  conditions?: readonly string[];
}

export interface PluginSources {
  discover(): Promise<DiscoveredPlugins>;
  inspect(source: string): Promise<PluginEntry[]>;
  install(source: string, options: { editable: boolean }): Promise<PluginEntry[]>;
  remove(name: string): Promise<void>;
}

export function createPluginSources(options: PluginSourcesOptions): PluginSources {
  const { bundled_roots, home_plugins_dir: plugins_dir } = options;
  const conditions = options.conditions ?? conditionsOf(process.execArgv);
  const tree = new NpmTree(plugins_dir);
  const discover = () => discoverPlugins({ plugins_dir, bundled_roots, tree, conditions });
  const parts: InstallParts = {
    npm: options.npm ?? createNpm(),
    plugins_dir,
    conditions,
    tree,
    present: async () => (await discover()).entries,
  };
  let last: Promise<unknown> = Promise.resolve();
  const inTurn = <T>(work: () => Promise<T>): Promise<T> => {
    const result = last.then(work, work);
    last = result.catch(() => {});
    return result;
  };
  let swept: Promise<void> | null = null;

  return {
    async discover() {
      // The first look is at the start, when no plugin runs yet. Later ones wait for no install: it shows whole or not.
      swept ??= inTurn(async () => {
        await tree.sweep();
        await sweepCopies(plugins_dir);
      });
      await swept;
      const { entries, problems } = await discover();
      return { entries: await withDates(plugins_dir, entries), problems };
    },
    inspect: async (source) => (await inspectSource(validateInstallSource(source), parts)).entries,
    async install(source, { editable }) {
      const valid = validateInstallSource(source);
      return await inTurn(async () => {
        await mkdir(plugins_dir, { recursive: true, mode: 0o700 });
        const entries = await installSource(valid, editable, parts);
        for (const entry of entries) await noteInstalled(plugins_dir, entry.source, new Date());
        return entries;
      });
    },
    remove: (name) =>
      inTurn(async () => {
        const entry = (await discover()).entries.find((one) => one.name === name);
        if (entry === undefined) throw new BackplaneError("plugin.not_found", `There is no plugin ${name}.`);
        await removeEntry(entry, parts);
        await forgetInstalled(plugins_dir, entry.source);
      }),
  };
}
