/** Provider instances as plugins read them: fresh at every call, foreign secrets masked (plug.context). */
import type { Json, ProviderInstance, ProvidersView } from "@backplane/contract";
import type { LiveConfig } from "../config/live-config.ts";
import { maskValue } from "../config/mask.ts";
import { activeInstanceId, groupInstances } from "../config/provider-instances.ts";
import type { Logger } from "../ports/index.ts";

interface ViewDeps {
  config: LiveConfig;
  log: Logger;
}

export interface ProviderState {
  active: string | null;
  instances: ProviderInstance[];
}

export async function readProviders(deps: ViewDeps, org_id: string): Promise<ProviderState> {
  const entries = new Map<string, Json>();
  for (const row of await deps.config.rows(org_id, "provider")) {
    try {
      entries.set(row.key, deps.config.open(org_id, row));
    } catch (error) {
      // One value that no key opens any more must not take the other instances along.
      deps.log.warn({ err: error, key: row.key }, "a configuration value cannot be opened");
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
    instance.plugin === reader ? instance : maskInstance(instance);
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
