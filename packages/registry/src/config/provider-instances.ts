/**
 * The namespace `providers.<id>.*` (llm.instances): many configured instances of one provider plugin, kept as flat
 * keys. Pure: it reads what a look into the configuration gave.
 */
import type { Json, ProviderInstance } from "@backplane/contract";

const PROVIDERS_PREFIX = "providers.";
export const ACTIVE_INSTANCE_KEY = "provider";
/** The field that names the one private `host:port` an instance may be at; only the host's admin writes it. */
export const ALLOW_PRIVATE_FIELD = "allow_private";

const INSTANCE_ID = /^[a-z0-9][a-z0-9-]{1,62}[a-z0-9]$/;
/** `/api/llm-providers/active` is a route of its own. */
const RESERVED = "active";

export function isInstanceId(id: string): boolean {
  return INSTANCE_ID.test(id) && id !== RESERVED;
}

/** The instance that a written key belongs to, so that only this one is loaded again; null for other keys. */
export function parseInstanceKey(key: string): string | null {
  return splitInstanceKey(key)?.id ?? null;
}

/** Null while none is chosen; the instance itself may be gone. */
export function activeInstanceId(entries: ReadonlyMap<string, Json>): string | null {
  const id = entries.get(ACTIVE_INSTANCE_KEY);
  return typeof id === "string" && isInstanceId(id) ? id : null;
}

/** In the order of ids. What has no plugin is not (or not yet) an instance. */
export function groupInstances(entries: ReadonlyMap<string, Json>): ProviderInstance[] {
  const found = new Map<string, Record<string, Json>>();
  for (const [key, value] of entries) {
    const parts = splitInstanceKey(key);
    if (parts === null) continue;
    const fields = found.get(parts.id) ?? {};
    fields[parts.field] = value;
    found.set(parts.id, fields);
  }
  return [...found]
    .toSorted(([a], [b]) => (a < b ? -1 : 1))
    .flatMap(([id, { plugin, label, ...config }]) =>
      typeof plugin === "string"
        ? [{ id, plugin, label: typeof label === "string" ? label : id, config }]
        : [],
    );
}

function splitInstanceKey(key: string): { id: string; field: string } | null {
  if (!key.startsWith(PROVIDERS_PREFIX)) return null;
  const rest = key.slice(PROVIDERS_PREFIX.length);
  const dot = rest.indexOf(".");
  if (dot < 0) return null;
  const id = rest.slice(0, dot);
  return isInstanceId(id) ? { id, field: rest.slice(dot + 1) } : null;
}
