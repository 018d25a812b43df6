/**
 * Parses the keys `providers.<id>.*` (llm.instances), which hold the configured instances of provider plugins. Pure
 * functions over entries that were read before.
 */
import type { Json, ProviderInstance } from "@backplane/contract";

const PROVIDERS_PREFIX = "providers.";
export const ACTIVE_INSTANCE_KEY = "provider";
/** The one private `host:port` that an instance may connect to. Only the host's admin may write it. */
export const ALLOW_PRIVATE_FIELD = "allow_private";

const INSTANCE_ID = /^[a-z0-9][a-z0-9-]{1,62}[a-z0-9]$/;
/** `/api/llm-providers/active` is a route, so no instance may have this id. */
const RESERVED_ID = "active";

export function isInstanceId(id: string): boolean {
  return INSTANCE_ID.test(id) && id !== RESERVED_ID;
}

/** Returns the id of the instance that the key belongs to, or null for other keys. */
export function parseInstanceKey(key: string): string | null {
  return splitInstanceKey(key)?.id ?? null;
}

/** Returns null while no instance is selected. The selected instance may have been removed. */
export function activeInstanceId(entries: ReadonlyMap<string, Json>): string | null {
  const id = entries.get(ACTIVE_INSTANCE_KEY);
  return typeof id === "string" && isInstanceId(id) ? id : null;
}

/**
 * Returns the instances sorted by id. An id without a `plugin` field is not an instance. `model_name` is another
 * spelling of `model`, so readers find the model under one name.
 */
export function groupInstances(entries: ReadonlyMap<string, Json>): ProviderInstance[] {
  const instances = new Map<string, Record<string, Json>>();
  for (const [key, value] of entries) {
    const parts = splitInstanceKey(key);
    if (parts === null) continue;
    const fields = instances.get(parts.id) ?? {};
    fields[parts.field] = value;
    instances.set(parts.id, fields);
  }
  return [...instances]
    .toSorted(([a], [b]) => (a < b ? -1 : 1))
    .flatMap(([id, { plugin, label, ...config }]) =>
      typeof plugin === "string"
        ? [{ id, plugin, label: typeof label === "string" ? label : id, config: withModel(config) }]
        : [],
    );
}

function withModel(config: Record<string, Json>): Record<string, Json> {
  const { model, model_name } = config;
  const missing = model === undefined || model === null || model === "";
  return missing && typeof model_name === "string" ? { ...config, model: model_name } : config;
}

function splitInstanceKey(key: string): { id: string; field: string } | null {
  if (!key.startsWith(PROVIDERS_PREFIX)) return null;
  const path = key.slice(PROVIDERS_PREFIX.length);
  const dot = path.indexOf(".");
  if (dot < 0) return null;
  const id = path.slice(0, dot);
  return isInstanceId(id) ? { id, field: path.slice(dot + 1) } : null;
}
