/** Kernel plugins and model providers as the API shows them. */

import type { HealthReport, PluginOrigin, PluginStatus } from "../plugins/kernel-plugin.ts";
import type { Provenance } from "../schema/provenance.ts";
import type { JsonObject } from "../values/json.ts";
import type { PluginCategory } from "../vocabulary/bus-kinds.ts";

export interface PluginView {
  name: string;
  version: string;
  category: PluginCategory;
  origin: PluginOrigin;
  source: string;
  /** Only for a package from npm, as it was verified at the installation. */
  provenance?: Provenance;
  status: PluginStatus;
  enabled: boolean;
  mode: "inline" | "hosted";
  trusted: boolean;
  error: string | null;
  /** The stack trace of `error`; null for callers that may not change plugins. */
  trace: string | null;
  config_schema: JsonObject | null;
  current_config: JsonObject;
}

export type PluginHealth = { name: string } & HealthReport;

export interface ProviderView {
  id: string;
  plugin: string;
  label: string;
  active: boolean;
  /** Secrets are masked. */
  config: JsonObject;
  config_schema: JsonObject | null;
}

export interface ProviderTestResult {
  ok: boolean;
  latency_ms: number;
  error?: string;
}
