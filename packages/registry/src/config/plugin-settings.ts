/**
 * The keys under `plugin.<ns>.` that the kernel itself reads. Writing `enabled` needs an operator of the plugins;
 * the other keys widen what a plugin may do and need an admin (write-authority.ts).
 */
import { type Json, pluginNamespace } from "@backplane/contract";
import type { LiveConfig } from "./live-config.ts";

/** Plugin settings are read from this scope, because one instance of a plugin serves all orgs. */
export const PLUGIN_SETTINGS_SCOPE = { org_id: "org_local", project_id: "proj_default" } as const;

const SETTING_FIELDS = ["enabled", "trusted", "services", "api", "allowed_domains"] as const;
type PluginSettingField = (typeof SETTING_FIELDS)[number];

export interface PluginSettings {
  enabled: boolean;
  /** Whether the plugin runs inline although it is not bundled. */
  trusted: boolean;
  /** Whether the plugin may mount routes under /api/. */
  api: boolean;
  /** Names of kernel services, or prefixes that end in `.*`. */
  services: readonly string[];
  /** Domains that the plugin may reach through the host's fetch. */
  allowed_domains: readonly string[];
}

export function pluginSettingKey(plugin: string, field: PluginSettingField): string {
  return `plugin.${pluginNamespace(plugin)}.${field}`;
}

/** Returns null for a key that is not a plugin setting. */
export function parsePluginSettingKey(key: string): { namespace: string; field: PluginSettingField } | null {
  const [root, namespace, field, ...more] = key.split(".");
  if (root !== "plugin" || namespace === undefined || field === undefined || more.length > 0) return null;
  return isPluginSettingField(field) ? { namespace, field } : null;
}

export function isPluginSettingField(field: string): field is PluginSettingField {
  return (SETTING_FIELDS as readonly string[]).includes(field);
}

/** Whether only an admin may write the key. */
export function isAdminSettingKey(key: string): boolean {
  const setting = parsePluginSettingKey(key);
  return setting !== null && setting.field !== "enabled";
}

/**
 * Returns the setting fields that a write to `path` affects. With `is_prefix`, `path` is a prefix that ends in a dot.
 */
export function coveredSettingFields(path: string, is_prefix: boolean): readonly PluginSettingField[] {
  if (!is_prefix) {
    const setting = parsePluginSettingKey(path);
    return setting === null ? [] : [setting.field];
  }
  // Only `plugin.` and `plugin.<ns>.` have settings below them; longer prefixes do not.
  return /^plugin\.([^.]+\.)?$/.test(path) ? SETTING_FIELDS : [];
}

export async function readPluginSettings(
  config: LiveConfig,
  org_id: string,
  plugin: string,
): Promise<PluginSettings> {
  const read = (field: PluginSettingField) => config.get(org_id, pluginSettingKey(plugin, field));
  const [enabled, trusted, api, services, allowed_domains] = await Promise.all([
    read("enabled"),
    read("trusted"),
    read("api"),
    read("services"),
    read("allowed_domains"),
  ]);
  return {
    enabled: enabled !== false,
    trusted: trusted === true,
    api: api === true,
    services: stringsIn(services),
    allowed_domains: stringsIn(allowed_domains),
  };
}

function stringsIn(value: Json | undefined): string[] {
  return Array.isArray(value) ? value.filter((name) => typeof name === "string") : [];
}
