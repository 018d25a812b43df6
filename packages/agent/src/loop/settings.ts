/**
 * Settings for turns: `kernel.strategy` and `kernel.max_iterations` of the org. A request or a session may select
 * another strategy.
 */

import { type Json, LOOP_LIMITS } from "@backplane/contract";
import type { SessionKey, Store } from "@backplane/ports";
import type { LiveConfig } from "@backplane/registry";
import { sessionMapKey } from "@backplane/session";

export interface TurnRules {
  strategy: string;
  max_iterations: number;
}

const STRATEGY_KEY = "kernel.strategy";
const ITERATIONS_KEY = "kernel.max_iterations";
const MAX_CACHED = 4_096;

export class LoopSettings {
  readonly #config: Pick<LiveConfig, "get">;
  readonly #store: Pick<Store, "sessions" | "shared">;
  readonly #default_strategy: string;
  /** The strategy that each session sets for itself, or null. Empty if other gateways can change sessions too. */
  readonly #session_strategies = new Map<string, Promise<string | null>>();

  /** `config` is read for every turn, so it has to be cached. */
  constructor(
    config: Pick<LiveConfig, "get">,
    store: Pick<Store, "sessions" | "shared">,
    default_strategy?: string,
  ) {
    this.#config = config;
    this.#store = store;
    this.#default_strategy = default_strategy ?? LOOP_LIMITS.default_strategy;
  }

  async read(key: SessionKey, requested: string | undefined): Promise<TurnRules> {
    const rules = await this.#readOrgRules(key.scope.org_id);
    const strategy = requested ?? (await this.#getStrategy(key)) ?? rules.strategy;
    return { ...rules, strategy };
  }

  /** Called when the metadata of a session has changed. */
  forget(key: SessionKey): void {
    this.#session_strategies.delete(sessionMapKey(key));
  }

  async #readOrgRules(org_id: string): Promise<TurnRules> {
    const [strategy, iterations] = await Promise.all([
      this.#config.get(org_id, STRATEGY_KEY),
      this.#config.get(org_id, ITERATIONS_KEY),
    ]);
    return {
      strategy: typeof strategy === "string" ? strategy : this.#default_strategy,
      max_iterations: toPositiveInteger(iterations) ?? LOOP_LIMITS.iterations,
    };
  }

  #getStrategy(key: SessionKey): Promise<string | null> {
    if (this.#store.shared) return this.#readStrategy(key);
    const map_key = sessionMapKey(key);
    const cached = this.#session_strategies.get(map_key);
    if (cached !== undefined) return cached;
    // The promise is cached, so that `forget` also discards a read that is still in progress.
    const strategy = this.#readStrategy(key);
    this.#session_strategies.set(map_key, strategy);
    strategy.catch(() => {
      if (this.#session_strategies.get(map_key) === strategy) this.#session_strategies.delete(map_key);
    });
    if (this.#session_strategies.size > MAX_CACHED)
      this.#session_strategies.delete(this.#session_strategies.keys().next().value as string);
    return strategy;
  }

  async #readStrategy(key: SessionKey): Promise<string | null> {
    const strategy = (await this.#store.sessions.get(key))?.metadata.strategy;
    return typeof strategy === "string" ? strategy : null;
  }
}

function toPositiveInteger(value: Json | undefined): number | null {
  return typeof value === "number" && Number.isInteger(value) && value > 0 ? value : null;
}
