/**
 * The view that plugins have of provider instances: read at every call, with the secrets of other plugins
 * masked (plug.context).
 */

import type { Json, ProviderInstance, ProvidersView } from "@backplane/contract";
import type { ConfigRow, Logger } from "@backplane/ports";
import { activeInstanceId, groupInstances, type LiveConfig, maskValue } from "@backplane/registry";

interface ViewDeps {
  config: LiveConfig;
  log: Logger;
}

export interface ProviderState {
  active: string | null;
  instances: ProviderInstance[];
}

/** Keyed by the rows array, because the cached configuration returns the same array until it changes. */
const states = new WeakMap<readonly ConfigRow[], ProviderState>();

/** The returned object is shared by all callers and must not be modified. */
export async function readProviders(deps: ViewDeps, org_id: string): Promise<ProviderState> {
  const rows = await deps.config.rows(org_id, "provider");
  let state = states.get(rows);
  if (state === undefined) {
    state = stateOf(deps, org_id, rows);
    states.set(rows, state);
  }
  return state;
}

function stateOf(deps: ViewDeps, org_id: string, rows: readonly ConfigRow[]): ProviderState {
  const entries = new Map<string, Json>();
  for (const row of rows) {
    try {
      entries.set(row.key, deps.config.open(org_id, row));
    } catch (error) {
      // A value that cannot be decrypted must not hide the other instances.
      deps.log.warn({ err: error, key: row.key }, "configuration value cannot be decrypted");
    }
  }
  return { active: activeInstanceId(entries), instances: groupInstances(entries) };
}

export function maskInstance(instance: ProviderInstance): ProviderInstance {
  const masked = Object.entries(instance.config).map(([field, value]) => [field, maskValue(field, value)]);
  return { ...instance, config: Object.fromEntries(masked) as Record<string, Json> };
}

export function providersView(deps: ViewDeps, org_id: string, reader: string): ProvidersView {
  const show = (instance: ProviderInstance) =>
    instance.plugin === reader ? { ...instance, config: { ...instance.config } } : maskInstance(instance);
  const read = async () => (await readProviders(deps, org_id)).instances;
  return {
    listInstances: async () => (await read()).map(show),
    instancesForPlugin: async (plugin) => (await read()).filter((one) => one.plugin === plugin).map(show),
    async getInstance(id) {
      const found = (await read()).find((one) => one.id === id);
      return found === undefined ? null : show(found);
    },
    activeId: async () => (await readProviders(deps, org_id)).active,
  };
}
