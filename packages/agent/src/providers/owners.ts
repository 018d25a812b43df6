/**
 * Caches which plugin owns a provider instance, so that few model calls need a read. A write to
 * `providers.<id>.plugin` invalidates the org's map immediately, and later lookups wait for the new map. A write by
 * another gateway is not announced, so a map is used for FRESH_MS only.
 */
import type { Clock } from "@backplane/ports";
import { type LiveConfig, parseInstanceKey } from "@backplane/registry";

type Owners = ReadonlyMap<string, string>;

interface CachedOwners {
  at: number;
  owners: Owners | Promise<Owners>;
}

const FRESH_MS = 250;

export class InstanceOwners {
  readonly #config: LiveConfig;
  readonly #clock: Pick<Clock, "monotonic">;
  readonly #orgs = new Map<string, CachedOwners>();
  readonly #unsubscribe: () => void;

  constructor(config: LiveConfig, clock: Pick<Clock, "monotonic">) {
    this.#config = config;
    this.#clock = clock;
    this.#unsubscribe = config.onUpdated(({ key }, org_id) => {
      if (key.endsWith(".plugin") && parseInstanceKey(key) !== null) this.#orgs.delete(org_id);
    });
  }

  /** Returns null if the instance does not exist, and a promise only if the map has to be read (benchmark llm.proxy). */
  find(org_id: string, id: string): string | null | Promise<string | null> {
    const cached = this.#findFresh(org_id) ?? this.#read(org_id);
    return cached instanceof Promise
      ? cached.then((owners) => owners.get(id) ?? null)
      : (cached.get(id) ?? null);
  }

  close(): void {
    this.#unsubscribe();
  }

  #findFresh(org_id: string): CachedOwners["owners"] | null {
    const cached = this.#orgs.get(org_id);
    return cached !== undefined && this.#clock.monotonic() - cached.at < FRESH_MS ? cached.owners : null;
  }

  #read(org_id: string): Promise<Owners> {
    const reading = this.#load(org_id);
    const cached: CachedOwners = { at: this.#clock.monotonic(), owners: reading };
    this.#orgs.set(org_id, cached);
    // If a write during the read has invalidated this map, it is used only for the lookups that preceded the write and
    // is not cached.
    reading.then(
      (owners) => {
        cached.owners = owners;
      },
      () => void (this.#orgs.get(org_id) === cached && this.#orgs.delete(org_id)),
    );
    return reading;
  }

  async #load(org_id: string): Promise<Owners> {
    const owners = new Map<string, string>();
    for (const row of await this.#config.listRows(org_id, "providers.")) {
      const id = parseInstanceKey(row.key);
      if (id === null || row.key !== `providers.${id}.plugin`) continue;
      const plugin = this.#config.open(org_id, row);
      if (typeof plugin === "string") owners.set(id, plugin);
    }
    return owners;
  }
}
