/** Views of plugins and model providers, shared by the kernel and its clients. */

import type { JsonObject } from "../values/json.ts";
import type { PluginCategory } from "../vocabulary/bus-kinds.ts";
import type { HealthReport, PluginOrigin, PluginStatus } from "./kernel-plugin.ts";

export interface PluginRow {
  name: string;
  version: string;
  category: PluginCategory;
  origin: PluginOrigin;
  source: string;
  status: PluginStatus;
  enabled: boolean;
  mode: "inline" | "hosted";
  trusted: boolean;
  error: string | null;
  config_schema: JsonObject | null;
  current_config: JsonObject;
}

export type PluginHealth = { name: string } & HealthReport;

export interface ProviderRow {
  id: string;
  plugin: string;
  label: string;
  active: boolean;
  /** Secrets are masked. */
  config: JsonObject;
  config_schema: JsonObject | null;
}

export interface ProviderTested {
  ok: boolean;
  latency_ms: number;
  error?: string;
}
