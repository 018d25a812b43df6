/**
 * Settings for turns: `kernel.strategy` and `kernel.max_iterations` of the org. A request or a session may select
 * another strategy.
 */

import { type Json, LOOP_LIMITS } from "@backplane/contract";
import type { SessionKey, SessionStore } from "@backplane/ports";
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
  readonly #config: LiveConfig;
  readonly #sessions: Pick<SessionStore, "get">;
  readonly #default_strategy: string;
  readonly #orgs = new Map<string, Promise<TurnRules>>();
  /** The strategy that each session sets for itself, or null. */
  readonly #session_strategies = new Map<string, string | null>();

  constructor(config: LiveConfig, sessions: Pick<SessionStore, "get">, default_strategy?: string) {
    this.#config = config;
    this.#sessions = sessions;
    this.#default_strategy = default_strategy ?? LOOP_LIMITS.default_strategy;
    config.onUpdated(({ key }, org_id) => {
      if (key === STRATEGY_KEY || key === ITERATIONS_KEY) this.#orgs.delete(org_id);
    });
  }

  async read(key: SessionKey, requested: string | undefined): Promise<TurnRules> {
    const rules = await this.#getOrgRules(key.scope.org_id);
    const strategy = requested ?? (await this.#readStrategy(key)) ?? rules.strategy;
    return { ...rules, strategy };
  }

  /** Called when the metadata of a session has changed. */
  forget(key: SessionKey): void {
    this.#session_strategies.delete(sessionMapKey(key));
  }

  #getOrgRules(org_id: string): Promise<TurnRules> {
    let rules = this.#orgs.get(org_id);
    if (rules === undefined) {
      rules = this.#readOrgRules(org_id);
      this.#orgs.set(org_id, rules);
      rules.catch(() => this.#orgs.delete(org_id));
    }
    return rules;
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

  async #readStrategy(key: SessionKey): Promise<string | null> {
    const name = sessionMapKey(key);
    const cached = this.#session_strategies.get(name);
    if (cached !== undefined) return cached;
    const strategy = (await this.#sessions.get(key))?.metadata.strategy;
    const session_strategy = typeof strategy === "string" ? strategy : null;
    this.#session_strategies.set(name, session_strategy);
    if (this.#session_strategies.size > MAX_CACHED)
      this.#session_strategies.delete(this.#session_strategies.keys().next().value as string);
    return session_strategy;
  }
}

function toPositiveInteger(value: Json | undefined): number | null {
  return typeof value === "number" && Number.isInteger(value) && value > 0 ? value : null;
}
