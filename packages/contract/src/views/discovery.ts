/** Views of exports and bindings, shared by the kernel and its clients. */

import type { Binding, Grant, PluginExport } from "../schema/index.ts";
import type { Json } from "../values/json.ts";
import type { ExportKind } from "../vocabulary/vocabulary.ts";

/** A usable export. */
export interface DiscoveredExport {
  kind: ExportKind;
  export_id: string;
  package_id: string;
  package_version: string;
  binding_id: string;
  display_name: string;
  description: string;
  /** The effective execution class. */
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
  /** Settings that are valid but have no effect here. */
  warnings: { path: string; message: string }[];
  /** The permissions requested by the manifest. */
  requested: PluginExport["permissions"];
  /** The permissions granted to a call here, before restrictions of the caller. */
  grant: Grant;
}
