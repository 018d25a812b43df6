/**
 * Selects the provider instance and the model for a call or for embeddings: the named instance, or the active one.
 * Instances are cached until the configuration is read again.
 */

import { COMPACTION_LIMITS, type Json, type ProviderInstance } from "@backplane/contract";
import type { ConfigRow } from "@backplane/ports";
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
  readonly #config: Pick<LiveConfig, "listRows" | "open">;
  /**
   * Keyed by the rows from which they were built. The cached configuration returns the same array until it is read again.
   */
  readonly #instances = new WeakMap<readonly ConfigRow[], Instances>();

  constructor(config: Pick<LiveConfig, "listRows" | "open">) {
    this.#config = config;
  }

  /** Returns the model of the named or the active instance, or null if that instance does not exist. */
  async choose(org_id: string, provider: string | null = null): Promise<ChosenModel | null> {
    const { active, all } = await this.#getInstances(org_id);
    const instance = all.get(provider ?? active ?? "");
    if (instance === undefined) return null;
    const { model, context_window } = instance.config;
    return { provider: instance.id, model: textOrEmpty(model), window: toWindowTokens(context_window) };
  }

  /** All instances of the org, the active one first. */
  async list(org_id: string): Promise<ProviderInstance[]> {
    const { active, all } = await this.#getInstances(org_id);
    return [...all.values()].toSorted((a, b) => Number(b.id === active) - Number(a.id === active));
  }

  /**
   * Returns the instance that embeds texts: the active one if it has an embedding model, otherwise the first instance
   * by id that has one. Returns null if no instance has one.
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

  async #getInstances(org_id: string): Promise<Instances> {
    const rows = await this.#config.listRows(org_id, "provider");
    let instances = this.#instances.get(rows);
    if (instances === undefined) {
      const entries = new Map(rows.map((row) => [row.key, this.#config.open(org_id, row)]));
      const all = new Map(groupInstances(entries).map((instance) => [instance.id, instance]));
      instances = { active: activeInstanceId(entries), all };
      this.#instances.set(rows, instances);
    }
    return instances;
  }
}

function textOrEmpty(value: Json | undefined): string {
  return typeof value === "string" ? value : "";
}

function toWindowTokens(value: Json | undefined): number {
  return typeof value === "number" && value > 0 ? value : COMPACTION_LIMITS.window_tokens;
}
