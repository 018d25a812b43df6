/** The live configuration of an org at rest. The store never sees a secret value: it comes sealed. */
import type { Facts } from "./facts.ts";

export interface ConfigRow {
  key: string;
  /** JSON text, or its ciphertext when `sealed`. */
  value: string;
  sealed: boolean;
}

export interface ConfigChange {
  set: readonly ConfigRow[];
  /** Keys, and patterns `a.b.*`. Removed before anything is set. */
  unset: readonly string[];
}

export interface ConfigStore {
  get(org_id: string, key: string): Promise<ConfigRow | null>;
  /** Every row whose key starts with `prefix` (empty: all), sorted by key. */
  list(org_id: string, prefix: string): Promise<ConfigRow[]>;
  /**
   * All of it or nothing, in one transaction with its facts; answers the keys that were there and are gone. Where a
   * destination changes (`isDestinationConfig`), the sealed values of its group go, unless the write brings them. A
   * change that changes nothing writes no facts. Throws `config.limit` when the org would hold too much.
   */
  write(org_id: string, change: ConfigChange, now: string, facts: Facts): Promise<string[]>;
}
