/**
 * The provider instances as plugins see them (plug.context): read at every call, with the secrets of other plugins
 * masked.
 */

import type { Json, ProviderInstance, ProvidersView } from "@backplane/contract";
import type { Logger } from "@backplane/ports";
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
  const rows = await deps.config.rows(org_id, "provider");
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
  const read = async () => (await readProviders(deps, org_id)).instances;
  return {
    listInstances: async () => (await read()).map(toVisible),
    instancesForPlugin: async (plugin) =>
      (await read()).filter((instance) => instance.plugin === plugin).map(toVisible),
    async getInstance(id) {
      const provider = (await read()).find((instance) => instance.id === id);
      return provider === undefined ? null : toVisible(provider);
    },
    activeId: async () => (await readProviders(deps, org_id)).active,
  };
}
