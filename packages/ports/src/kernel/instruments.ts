/** Administration of instrument plugins at run time. */
import type {
  BackplaneError,
  ExecutionClass,
  InstrumentHealthReport,
  InstrumentPluginView,
  JsonObject,
} from "@backplane/contract";
import type { Caller } from "../scope/scope.ts";

export interface InstrumentsFacade {
  /** Lists the bound instrument plugins of the caller's scope, loaded or not. Admin only. */
  list(caller: Caller): Promise<InstrumentPluginView[]>;
  /** Runs healthCheck of every instrument with a running plugin; `probe` starts the others first. Admin only. */
  health(caller: Caller, options: HealthCheckOptions): Promise<InstrumentHealthReport[]>;
  /**
   * Installs, binds and loads a plugin from a folder, zip or jar on the host. A plugin that was unloaded is loaded
   * again with its settings, unless `keep_unloaded` is set. Admin only.
   */
  install(
    caller: Caller,
    path: string,
    options?: { config?: JsonObject; class?: ExecutionClass; keep_unloaded?: boolean },
  ): Promise<InstrumentPluginView>;
  /**
   * Installs the plugins of several files, each after the plugins that it depends on. If several files contain the same
   * plugin, only the newest version is installed. Yields one result for each file. Plugins with an error come last,
   * because a plugin that is installed after them may resolve it. Plugins that were unloaded stay unloaded. Ends before
   * the next plugin when `stop` is aborted. Admin only.
   */
  installAll(
    caller: Caller,
    paths: readonly string[],
    stop: AbortSignal,
  ): AsyncGenerator<InstrumentInstallResult, void>;
  /** Disables the binding; its settings, the package and the plugin's data are kept. Admin only. */
  unload(caller: Caller, plugin_id: string): Promise<void>;
}

export type InstrumentInstallResult =
  | { path: string; plugin: InstrumentPluginView }
  | { path: string; error: BackplaneError };

export interface HealthCheckOptions {
  /** Applies to each healthCheck. */
  timeout_ms: number;
  /** Starts plugins that are not running. */
  probe: boolean;
}
