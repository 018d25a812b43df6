/**
 * Selects the model for a call: the active instance and its configuration, cached until the configuration
 * changes.
 */

import { COMPACTION_LIMITS, type Json, type ProviderInstance } from "@backplane/contract";
import { activeInstanceId, groupInstances, type LiveConfig } from "@backplane/registry";

interface Instances {
  active: string | null;
  all: Map<string, ProviderInstance>;
}

export interface ChosenModel {
  provider: string;
  model: string;
  /** Context window in tokens. */
  window: number;
}

export class ActiveModels {
  readonly #config: LiveConfig;
  readonly #orgs = new Map<string, Promise<Instances>>();

  constructor(config: LiveConfig) {
    this.#config = config;
    config.onUpdated(({ key }, org_id) => {
      if (key === "provider" || key.startsWith("providers.")) this.#orgs.delete(org_id);
    });
  }

  /** Returns the model of the named or the active instance, or null if that instance does not exist. */
  async choose(org_id: string, provider: string | null = null): Promise<ChosenModel | null> {
    const { active, all } = await this.#getInstances(org_id);
    const instance = all.get(provider ?? active ?? "");
    if (instance === undefined) return null;
    const { model, context_window } = instance.config;
    return { provider: instance.id, model: textOrEmpty(model), window: windowTokens(context_window) };
  }

  /** All instances of the org, the active one first. */
  async list(org_id: string): Promise<ProviderInstance[]> {
    const { active, all } = await this.#getInstances(org_id);
    return [...all.values()].toSorted((a, b) => Number(b.id === active) - Number(a.id === active));
  }

  /**
   * Returns the instance that embeds texts: the active one if it has an embedding model, otherwise the first instance
   * by id that has one. Null when no instance has one.
   */
  async chooseEmbeddingModel(org_id: string): Promise<{ provider: string; model: string } | null> {
    const { active, all } = await this.#getInstances(org_id);
    const ids = [...all.keys()].toSorted();
    for (const id of active === null ? ids : [active, ...ids]) {
      const model = textOrEmpty(all.get(id)?.config.embedding_model);
      if (model !== "") return { provider: id, model };
    }
    return null;
  }

  #getInstances(org_id: string): Promise<Instances> {
    let instances = this.#orgs.get(org_id);
    if (instances === undefined) {
      instances = this.#read(org_id);
      this.#orgs.set(org_id, instances);
      instances.catch(() => this.#orgs.delete(org_id));
    }
    return instances;
  }

  async #read(org_id: string): Promise<Instances> {
    const entries = await this.#config.list(org_id, "provider");
    const all = new Map(groupInstances(entries).map((instance) => [instance.id, instance]));
    return { active: activeInstanceId(entries), all };
  }
}

function textOrEmpty(value: Json | undefined): string {
  return typeof value === "string" ? value : "";
}

function windowTokens(value: Json | undefined): number {
  return typeof value === "number" && value > 0 ? value : COMPACTION_LIMITS.window_tokens;
}
