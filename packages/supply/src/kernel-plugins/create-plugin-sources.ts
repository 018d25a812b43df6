/**
 * Finds, installs and removes kernel plugins without executing any code of a package (plug.trust). Changes are
 * serialized.
 */
import { mkdir } from "node:fs/promises";
import { BackplaneError, type PluginEntry } from "@backplane/contract";
import {
  type DiscoveredPlugins,
  type Operation,
  requireNotCancelled,
  unwatchedOperation,
} from "@backplane/ports";
import { validateInstallSource } from "../npm/install-source.ts";
import { createNpm, type Npm } from "../npm/npm-command.ts";
import type { CheckProvenance } from "../provenance/check-provenance.ts";
import { discoverPlugins } from "./discover.ts";
import { inspectSource } from "./inspect.ts";
import { type InstallSourceOptions, installSource, removeEntry, sweepCopies } from "./install.ts";
import { recordInstallDate, removeInstallDate, withInstallDates } from "./install-meta.ts";
import { NpmTree } from "./npm-tree.ts";
import { conditionsOf } from "./resolve-module.ts";

export interface PluginSourcesOptions {
  /** `<home>/plugins`. */
  home_plugins_dir: string;
  /** Folders of the packages that are bundled with the gateway, in order. */
  bundled_roots: readonly string[];
  npm?: Npm;
  /** If absent, the provenance of npm packages is not checked. */
  provenance?: CheckProvenance;
  /** Conditions for `exports`; default: those of this process. */
  conditions?: readonly string[];
}

export interface PluginSources {
  discover(): Promise<DiscoveredPlugins>;
  inspect(source: string, operation?: Operation): Promise<PluginEntry[]>;
  /** Cancelling the operation leaves everything unchanged. */
  install(source: string, options: { editable: boolean }, operation?: Operation): Promise<PluginEntry[]>;
  remove(name: string): Promise<void>;
}

export function createPluginSources(options: PluginSourcesOptions): PluginSources {
  const { bundled_roots, home_plugins_dir: plugins_dir } = options;
  const conditions = options.conditions ?? conditionsOf(process.execArgv);
  const tree = new NpmTree(plugins_dir);
  const discover = () => discoverPlugins({ plugins_dir, bundled_roots, tree, conditions });
  const install_options: InstallSourceOptions = {
    npm: options.npm ?? createNpm(),
    plugins_dir,
    conditions,
    tree,
    ...(options.provenance === undefined ? {} : { provenance: options.provenance }),
    listInstalled: async () => (await discover()).entries,
  };
  let previous: Promise<unknown> = Promise.resolve();
  const serialize = <T>(work: () => Promise<T>): Promise<T> => {
    const result = previous.then(work, work);
    previous = result.catch(() => {});
    return result;
  };
  let sweeping: Promise<void> | null = null;

  return {
    async discover() {
      // The first call is at the start, when no plugin is running. Later calls need not wait for an install, which is
      // atomic.
      sweeping ??= serialize(async () => {
        await tree.sweep();
        await sweepCopies(plugins_dir);
      });
      await sweeping;
      const { entries, problems } = await discover();
      return { entries: await withInstallDates(plugins_dir, entries), problems };
    },
    inspect: async (source, operation = unwatchedOperation()) =>
      (await inspectSource(validateInstallSource(source), install_options, operation)).entries,
    async install(source, { editable }, operation = unwatchedOperation()) {
      const valid = validateInstallSource(source);
      operation.report({ step: "read", message: "Waiting for other installations of kernel plugins" });
      return await serialize(async () => {
        requireNotCancelled(operation);
        await mkdir(plugins_dir, { recursive: true, mode: 0o700 });
        const entries = await installSource(valid, editable, install_options, operation);
        for (const entry of entries) await recordInstallDate(plugins_dir, entry.source, new Date());
        return entries;
      });
    },
    remove: (name) =>
      serialize(async () => {
        const entry = (await discover()).entries.find((candidate) => candidate.name === name);
        if (entry === undefined) throw new BackplaneError("plugin.not_found", `There is no plugin ${name}.`);
        await removeEntry(entry, install_options);
        await removeInstallDate(plugins_dir, entry.source);
      }),
  };
}
