/**
 * The keys under `plugin.<ns>.` that are the operator's word to the kernel about a plugin. `enabled` takes an operator of
 * the plugins, the others widen what a plugin may do and take an admin (config/write-rules.ts).
 */
import { type Json, pluginNamespace } from "@backplane/contract";
import type { LiveConfig } from "./live-config.ts";

/** Where they are read: one instance of a plugin serves all orgs. */
export const PLUGIN_SETTINGS_SCOPE = { org_id: "org_local", project_id: "proj_default" } as const;

const SETTING_FIELDS = ["enabled", "trusted", "services", "api", "allowed_domains"] as const;
type PluginSettingField = (typeof SETTING_FIELDS)[number];

export interface PluginSettings {
  enabled: boolean;
  /** Runs inline though it is not bundled. */
  trusted: boolean;
  /** May mount routes under /api/. */
  api: boolean;
  /** Names of kernel services, or prefixes that end in `.*`. */
  services: readonly string[];
  /** Names that the host's fetch reaches for it. */
  allowed_domains: readonly string[];
}

export function pluginSettingKey(plugin: string, field: PluginSettingField): string {
  return `plugin.${pluginNamespace(plugin)}.${field}`;
}

/** The namespace and field of a key that the kernel itself reads, or null. */
export function parsePluginSettingKey(key: string): { namespace: string; field: PluginSettingField } | null {
  const [root, namespace, field, ...more] = key.split(".");
  if (root !== "plugin" || namespace === undefined || field === undefined || more.length > 0) return null;
  return isPluginSettingField(field) ? { namespace, field } : null;
}

export function isPluginSettingField(field: string): field is PluginSettingField {
  return (SETTING_FIELDS as readonly string[]).includes(field);
}

/** True for the keys that only an admin may write. */
export function isPluginGrantKey(key: string): boolean {
  const setting = parsePluginSettingKey(key);
  return setting !== null && setting.field !== "enabled";
}

/** The kernel's own fields among the keys that a key, or everything below a prefix, names. */
export function coveredSettingFields(path: string, below: boolean): readonly PluginSettingField[] {
  if (!below) {
    const setting = parsePluginSettingKey(path);
    return setting === null ? [] : [setting.field];
  }
  // `plugin.` and `plugin.<ns>.`; a longer prefix lies below every setting.
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
