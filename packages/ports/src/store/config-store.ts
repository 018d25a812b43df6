/** The stored live configuration of an org. Secret values are sealed before they reach the store. */
import type { ChangeRecords } from "./change-records.ts";

export interface ConfigRow {
  key: string;
  /** JSON text, or its ciphertext when `sealed`. */
  value: string;
  sealed: boolean;
}

export interface ConfigChange {
  set: readonly ConfigRow[];
  /** Keys and patterns `a.b.*`, removed before `set` is applied. */
  unset: readonly string[];
}

export interface ConfigStore {
  get(org_id: string, key: string): Promise<ConfigRow | null>;
  /** All rows whose key starts with `prefix` (all rows if empty), sorted by key. */
  list(org_id: string, prefix: string): Promise<ConfigRow[]>;
  /**
   * Applies the whole change with its records in one transaction and returns the removed keys. A changed destination
   * (`isDestinationConfig`) removes the sealed values of its group unless the same write sets them. A change that sets
   * no key and removes none writes no records. Throws `config.limit` if the org's configuration would become too large.
   */
  write(org_id: string, change: ConfigChange, now: string, records: ChangeRecords): Promise<string[]>;
}
