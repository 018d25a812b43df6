/**
 * Creates the first provider instances of an org (llm.instances): one for each loaded provider plugin, with
 * the configuration under `plugin.<ns>.*`. The marker is written last, so a crash in the middle repeats the
 * bootstrap, which never overwrites a key.
 */

import {
  isDestinationConfig,
  isSecretConfigKey,
  type Json,
  type JsonObject,
  pluginNamespace,
} from "@backplane/contract";
import type { Clock, Logger } from "@backplane/ports";
import {
  ACTIVE_INSTANCE_KEY,
  ALLOW_PRIVATE_FIELD,
  isInstanceId,
  isPluginSettingField,
  type LiveConfig,
} from "@backplane/registry";

export const SEEDED_KEY = "_meta.providers_seeded_at";
/** The default while no other provider has a key, because this plugin needs neither a key nor the network. */
const OFFLINE_PLUGIN = "llm-echo";
/** Every instance gets the fields `plugin` and `label`. */
const META_FIELD_COUNT = 2;

interface BootstrapDeps {
  config: LiveConfig;
  clock: Clock;
  log: Logger;
}

/** Returns false when no provider was loaded, so that the caller tries again later. */
export async function bootstrapProviders(
  deps: BootstrapDeps,
  org_id: string,
  loaded: readonly string[],
  defaults: Readonly<Record<string, JsonObject>> = {},
): Promise<boolean> {
  const { config, clock } = deps;
  const plugins = loaded
    .filter(isInstanceId)
    .toSorted((a, b) => Number(b === OFFLINE_PLUGIN) - Number(a === OFFLINE_PLUGIN));
  if (plugins.length === 0) return false;
  if ((await config.get(org_id, SEEDED_KEY)) !== undefined) return true;
  const plugins_with_key: string[] = [];
  for (const plugin of plugins) {
    const existing = await config.list(org_id, `providers.${plugin}.`);
    const fallback = existing.size === 0 ? defaults[plugin] : undefined;
    const configured = await readInstance(config, org_id, plugin, fallback);
    const has_other_destination = hasOtherDestination(configured, existing);
    const missing = [...configured].filter(
      ([key]) => !existing.has(key) && !(has_other_destination && isSecretConfigKey(key)),
    );
    if (missing.length > 0) await config.write(org_id, { set: Object.fromEntries(missing) }, {});
    const fields = new Map([...missing, ...existing]);
    const key = fields.get(`providers.${plugin}.api_key`);
    const model = fields.get(`providers.${plugin}.model`);
    // An instance whose key comes from the environment is made active only if it has a model.
    const is_usable = fallback?.api_key !== key || (typeof model === "string" && model !== "");
    if (typeof key === "string" && key !== "" && is_usable) plugins_with_key.push(plugin);
  }
  if ((await config.get(org_id, ACTIVE_INSTANCE_KEY)) === undefined) {
    await config.write(org_id, { set: { [ACTIVE_INSTANCE_KEY]: plugins_with_key[0] ?? plugins[0]! } }, {});
  }
  const now = new Date(clock.now()).toISOString();
  await config.write(org_id, { set: { [SEEDED_KEY]: now } }, {});
  deps.log.info({ org_id, providers: plugins }, "provider instances were set up");
  return true;
}

/**
 * Returns whether the existing instance has a destination other than the one that the credentials were meant
 * for.
 */
function hasOtherDestination(
  configured: ReadonlyMap<string, Json>,
  existing: ReadonlyMap<string, Json>,
): boolean {
  return [...existing].some(
    ([key, value]) =>
      isDestinationConfig(key, JSON.stringify(value)) &&
      JSON.stringify(value) !== JSON.stringify(configured.get(key)),
  );
}

/** `fallback` is used only if the plugin has no configuration, so that no credential is sent to another destination. */
async function readInstance(
  config: LiveConfig,
  org_id: string,
  plugin: string,
  fallback: JsonObject = {},
): Promise<Map<string, Json>> {
  const to = `providers.${plugin}.`;
  const from = `plugin.${pluginNamespace(plugin)}.`;
  const rows = new Map<string, Json>([
    [`${to}plugin`, plugin],
    [`${to}label`, plugin],
  ]);
  for (const [key, value] of await config.list(org_id, from)) {
    const field = key.slice(from.length);
    // A host admin grants the permission to reach a private address to one instance, so it must not be copied.
    if (isPluginSettingField(field) || field === ALLOW_PRIVATE_FIELD) continue;
    if (!rows.has(`${to}${field}`)) rows.set(`${to}${field}`, value);
  }
  if (rows.size > META_FIELD_COUNT) return rows;
  for (const [field, value] of Object.entries(fallback)) rows.set(`${to}${field}`, value);
  return rows;
}
