/** What the control plane answers about exports and bindings, spelled once for the kernel and its clients. */

import type { Binding, Grant, PluginExport } from "../schema/index.ts";
import type { Json } from "../values/json.ts";
import type { ExportKind } from "../vocabulary/vocabulary.ts";

/** One usable export, as discovery lists it. */
export interface DiscoveredExport {
  kind: ExportKind;
  export_id: string;
  package_id: string;
  package_version: string;
  binding_id: string;
  display_name: string;
  description: string;
  /** The class it will really run as. */
  class: Binding["policy"]["class"];
  export: PluginExport;
  config_schema: Json | null;
  input_schema: Json | null;
  output_schema: Json | null;
}

export interface ValidationReport {
  valid: boolean;
  status: Binding["status"];
  unbound_slots: string[];
  issues: { path: string; message: string }[];
  /** What the manifest asks for. */
  requested: PluginExport["permissions"];
  /** What a call gets of it here, before its caller narrows it further. */
  grant: Grant;
}
