/**
 * Which plugin owns a provider instance, known without a read for each model call. A write to `providers.<id>.plugin`
 * makes the org's map stale at once, and whoever asks meanwhile waits for the new one.
 */
import { type LiveConfig, parseInstanceKey } from "@backplane/registry";

type Owners = ReadonlyMap<string, string>;

export class InstanceOwners {
  readonly #config: LiveConfig;
  readonly #orgs = new Map<string, Owners | Promise<Owners>>();
  readonly #stop: () => void;

  constructor(config: LiveConfig) {
    this.#config = config;
    this.#stop = config.onUpdated(({ key }, org_id) => {
      if (key.endsWith(".plugin") && parseInstanceKey(key) !== null) this.#orgs.delete(org_id);
    });
  }

  /** Null: there is no such instance. */
  of(org_id: string, id: string): string | null | Promise<string | null> {
    const known = this.#orgs.get(org_id) ?? this.#read(org_id);
    return known instanceof Promise
      ? known.then((owners) => owners.get(id) ?? null)
      : (known.get(id) ?? null);
  }

  close(): void {
    this.#stop();
  }

  #read(org_id: string): Promise<Owners> {
    const reading = this.#load(org_id);
    this.#orgs.set(org_id, reading);
    // A write in between has put the org aside: then this answer is for those who asked before it, and not kept.
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
