/**
 * Caches which plugin owns a provider instance, so that a model call needs no read. A write to
 * `providers.<id>.plugin` invalidates the org's map immediately, and later lookups wait for the new map.
 */
import { type LiveConfig, parseInstanceKey } from "@backplane/registry";

type Owners = ReadonlyMap<string, string>;

export class InstanceOwners {
  readonly #config: LiveConfig;
  readonly #orgs = new Map<string, Owners | Promise<Owners>>();
  readonly #unsubscribe: () => void;

  constructor(config: LiveConfig) {
    this.#config = config;
    this.#unsubscribe = config.onUpdated(({ key }, org_id) => {
      if (key.endsWith(".plugin") && parseInstanceKey(key) !== null) this.#orgs.delete(org_id);
    });
  }

  /** Returns null when the instance does not exist. */
  find(org_id: string, id: string): string | null | Promise<string | null> {
    const cached = this.#orgs.get(org_id) ?? this.#read(org_id);
    return cached instanceof Promise
      ? cached.then((owners) => owners.get(id) ?? null)
      : (cached.get(id) ?? null);
  }

  close(): void {
    this.#unsubscribe();
  }

  #read(org_id: string): Promise<Owners> {
    const reading = this.#load(org_id);
    this.#orgs.set(org_id, reading);
    // If a write during the read has invalidated this map, it is used only for the lookups that preceded the write and
    // is not cached.
    reading.then(
      (owners) => void (this.#orgs.get(org_id) === reading && this.#orgs.set(org_id, owners)),
      () => void (this.#orgs.get(org_id) === reading && this.#orgs.delete(org_id)),
    );
    return reading;
  }

  async #load(org_id: string): Promise<Owners> {
    const owners = new Map<string, string>();
    for (const row of await this.#config.rows(org_id, "providers.")) {
      const id = parseInstanceKey(row.key);
      if (id === null || row.key !== `providers.${id}.plugin`) continue;
      const plugin = this.#config.open(org_id, row);
      if (typeof plugin === "string") owners.set(id, plugin);
    }
    return owners;
  }
}
