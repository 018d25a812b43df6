/**
 * The provider instances as plugins see them (plug.context): read at every call, with the secrets of other plugins
 * masked.
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

export async function readProviders(deps: ViewDeps, org_id: string): Promise<ProviderState> {
  return parseProviders(deps, org_id, await deps.config.listRows(org_id, "provider"));
}

function parseProviders(deps: ViewDeps, org_id: string, rows: readonly ConfigRow[]): ProviderState {
  const entries = new Map<string, Json>();
  for (const row of rows) {
    try {
      entries.set(row.key, deps.config.open(org_id, row));
    } catch (error) {
      // A value that cannot be decrypted must not hide the other instances.
      deps.log.warn({ err: error, key: row.key }, "a configuration value could not be decrypted");
    }
  }
  return { active: activeInstanceId(entries), instances: groupInstances(entries) };
}

export function maskInstance(instance: ProviderInstance): ProviderInstance {
  const masked = Object.entries(instance.config).map(([field, value]) => [field, maskValue(field, value)]);
  return { ...instance, config: Object.fromEntries(masked) as Record<string, Json> };
}

export function createProvidersView(deps: ViewDeps, org_id: string, reader: string): ProvidersView {
  const toVisible = (instance: ProviderInstance) =>
    instance.plugin === reader ? { ...instance, config: { ...instance.config } } : maskInstance(instance);
  // Keyed by the rows: the cached configuration returns the same array until it is read again (benchmark llm.proxy).
  const parsed = new WeakMap<readonly ConfigRow[], ProviderState>();
  const read = async () => {
    const rows = await deps.config.listRows(org_id, "provider");
    const state = parsed.get(rows) ?? parseProviders(deps, org_id, rows);
    parsed.set(rows, state);
    return state;
  };
  return {
    listInstances: async () => (await read()).instances.map(toVisible),
    instancesForPlugin: async (plugin) =>
      (await read()).instances.filter((instance) => instance.plugin === plugin).map(toVisible),
    async getInstance(id) {
      const provider = (await read()).instances.find((instance) => instance.id === id);
      return provider === undefined ? null : toVisible(provider);
    },
    activeId: async () => (await read()).active,
  };
}
