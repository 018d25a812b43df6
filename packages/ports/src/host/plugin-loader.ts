/** Discovers, installs and loads kernel plugins, inline or in their own process. */
import type { KernelPlugin, PluginEntry } from "@backplane/contract";
import type { Operation } from "./operation.ts";

export interface DiscoveredPlugins {
  /** Bundled, then installed, then local plugins; a later plugin replaces an earlier one of the same name. */
  entries: PluginEntry[];
  /** Packages that declare a plugin but cannot be used as one. */
  problems: { source: string; error: string }[];
}

export interface LoadedPlugin {
  /** A proxy with the same methods if the plugin runs in its own process. */
  plugin: KernelPlugin;
  /** Digest of the loaded files; absent for files that are part of the gateway. */
  digest?: string;
  /** Ends the process, if there is one. Safe to call twice. */
  close(): Promise<void>;
  /** Calls the listener once if the process exits on its own. */
  onExit(listener: (error: Error) => void): void;
}

/** The network access of one plugin instance. */
export interface PluginNetworkAccess {
  /** Domain names as in a grant; empty for no network access. */
  allowed_domains: readonly string[];
}

export interface PluginLoader {
  discover(): Promise<DiscoveredPlugins>;
  /** Throws with the original stack trace if the module cannot be loaded. Changed files are read again. */
  load(entry: PluginEntry, mode: "inline" | "hosted", network: PluginNetworkAccess): Promise<LoadedPlugin>;
  /** Lists the plugins that an installation would add, without installing or running anything. */
  inspect(source: string, operation?: Operation): Promise<PluginEntry[]>;
  /**
   * Installs all plugins of the source or none, without running scripts. `editable` links a local folder. Cancelling
   * the operation leaves everything as it was.
   */
  install(source: string, options: { editable: boolean }, operation?: Operation): Promise<PluginEntry[]>;
  remove(name: string): Promise<void>;
  /** The plugin's own state folder, created if missing. */
  stateDir(name: string): string;
}
