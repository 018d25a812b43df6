/** Instrument plugins at run time, for the admin. */
import type {
  ExecutionClass,
  InstrumentHealthReport,
  InstrumentPluginView,
  JsonObject,
} from "@backplane/contract";
import type { Caller } from "../scope/scope.ts";

export interface InstrumentsFacade {
  /** Every bound instrument plugin of the caller's scope, loaded or not. The admin only. */
  list(caller: Caller): Promise<InstrumentPluginView[]>;
  /** The healthCheck of every instrument whose plugin runs, or with `probe` of all. The admin only. */
  health(caller: Caller, question: HealthQuestion): Promise<InstrumentHealthReport[]>;
  /** From a folder, zip or jar of the host: installed, bound as a whole, loaded. The admin only. */
  install(
    caller: Caller,
    path: string,
    options?: { config?: JsonObject; class?: ExecutionClass },
  ): Promise<InstrumentPluginView>;
  /** Takes its binding away; the package and the plugin's data stay. The admin only. */
  unload(caller: Caller, plugin_id: string): Promise<void>;
}

export interface HealthQuestion {
  /** For each healthCheck. */
  timeout_ms: number;
  /** Start what does not run. */
  probe: boolean;
}
