/**
 * The keys under `plugin.<ns>.` that are the operator's word to the kernel about a plugin. All but `enabled` widen
 * what the plugin may do, so only an admin may write them (`isPluginGrantKey`), whatever way a write comes in.
 */
import { type Json, pluginNamespace } from "@backplane/contract";
import type { LiveConfig } from "../config/live-config.ts";

const GRANTS = ["trusted", "services", "api"] as const;
const OWN = ["enabled", ...GRANTS] as const;
type OwnField = (typeof OWN)[number];

export interface PluginSettings {
  enabled: boolean;
  /** Runs inline though it is not bundled. */
  trusted: boolean;
  /** May mount routes under /api/. */
  api: boolean;
  /** Names of kernel services, or prefixes that end in `.*`. */
  services: readonly string[];
}

export function settingKey(plugin: string, field: OwnField): string {
  return `plugin.${pluginNamespace(plugin)}.${field}`;
}

/** The namespace and field of a key that the kernel itself reads, or null. */
export function settingOfKey(key: string): { namespace: string; field: OwnField } | null {
  const [root, namespace, field, ...more] = key.split(".");
  if (root !== "plugin" || namespace === undefined || field === undefined || more.length > 0) return null;
  return isOwnField(field) ? { namespace, field } : null;
}

export function isOwnField(field: string): field is OwnField {
  return (OWN as readonly string[]).includes(field);
}

/** True for the keys that only an admin may set. */
export function isPluginGrantKey(key: string): boolean {
  const setting = settingOfKey(key);
  return setting !== null && setting.field !== "enabled";
}

export async function readSettings(
  config: LiveConfig,
  org_id: string,
  plugin: string,
): Promise<PluginSettings> {
  const read = (field: OwnField) => config.get(org_id, settingKey(plugin, field));
  const [enabled, trusted, api, services] = await Promise.all([
    read("enabled"),
    read("trusted"),
    read("api"),
    read("services"),
  ]);
  return {
    enabled: enabled !== false,
    trusted: trusted === true,
    api: api === true,
    services: namesIn(services),
  };
}

function namesIn(value: Json | undefined): string[] {
  return Array.isArray(value) ? value.filter((name) => typeof name === "string") : [];
}
