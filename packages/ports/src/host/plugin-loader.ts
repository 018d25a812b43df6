/** Where kernel plugins come from and how they are brought to life: inline, or in a process of their own. */
import type { KernelPlugin, PluginEntry } from "@backplane/contract";

export interface DiscoveredPlugins {
  /** Bundled, then installed, then local; a later one with the same name replaces the earlier. */
  entries: PluginEntry[];
  /** Packages that say that they are plugins and are not. */
  problems: { source: string; error: string }[];
}

export interface LoadedPlugin {
  /** In its own process this is a stand-in with the same methods. */
  plugin: KernelPlugin;
  /** Of the files that it was loaded from; left out where they are those of the gateway's own version. */
  digest?: string;
  /** Ends the process, if there is one. Safe to call twice. */
  close(): Promise<void>;
  /** Told once when the process ends by itself. */
  onExit(listener: (error: Error) => void): void;
}

/** What the operator lets a plugin reach for as long as this instance of it lives. */
export interface PluginReach {
  /** Names, as in a grant; none: no network of its own. */
  allowed_domains: readonly string[];
}

export interface PluginLoader {
  discover(): Promise<DiscoveredPlugins>;
  /** Throws with the author's own trace when the module cannot be loaded. A changed file is read anew. */
  load(entry: PluginEntry, mode: "inline" | "hosted", reach: PluginReach): Promise<LoadedPlugin>;
  /** What installing this source would add, for the confirmation; changes nothing and runs nothing. */
  inspect(source: string): Promise<PluginEntry[]>;
  /** Runs no scripts. `editable` links a local folder instead of copying it. All or nothing. */
  install(source: string, options: { editable: boolean }): Promise<PluginEntry[]>;
  remove(name: string): Promise<void>;
  /** The plugin's own folder under the data home; made when missing. */
  stateDir(name: string): string;
}
