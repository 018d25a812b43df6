/**
 * The configuration as the kernel itself uses it: real values, read from the store every time, written atomically.
 * Values under secret keys are sealed for their organization and configuration key before they reach the store.
 */

import {
  BackplaneError,
  CONFIG_LIMITS,
  type ConfigUpdated,
  configPrefixOf,
  isConfigKey,
  isSecretConfigKey,
  type Json,
} from "@backplane/contract";
import type { ChangeRecords, Changes, ConfigRow, KernelDeps } from "@backplane/ports";
import { fitsBytes } from "./json-size.ts";

export interface LiveConfig {
  /** Resolves to undefined when the key is not set; null is a value. */
  get(org_id: string, key: string): Promise<Json | undefined>;
  /** Lists values sorted by key. */
  list(org_id: string, prefix?: string): Promise<Map<string, Json>>;
  /** Lists the stored rows without decrypting them. */
  listRows(org_id: string, prefix: string): Promise<ConfigRow[]>;
  open(org_id: string, row: ConfigRow): Json;
  /**
   * `unset` takes keys and patterns such as `a.b.*`. Resolves to the keys that were removed, including credentials
   * whose destination changed.
   */
  write(
    org_id: string,
    change: { set?: Readonly<Record<string, Json>>; unset?: readonly string[] },
    records: ChangeRecords,
  ): Promise<string[]>;
  onUpdated(listener: ConfigListener): () => void;
}

type ConfigListener = (updated: ConfigUpdated, org_id: string) => void;

export function createLiveConfig(
  deps: Pick<KernelDeps, "store" | "vault" | "clock">,
  changes: Changes,
): LiveConfig {
  const { store, vault, clock } = deps;

  function open(org_id: string, row: ConfigRow): Json {
    const text = row.sealed ? vault.open(org_id, configSealName(row.key), row.value) : row.value;
    return JSON.parse(text) as Json;
  }

  function seal(org_id: string, key: string, value: Json): ConfigRow {
    const text = JSON.stringify(value);
    if (!isSecretConfigKey(key)) return { key, value: text, sealed: false };
    return { key, value: vault.seal(org_id, configSealName(key), text), sealed: true };
  }

  const listRows: LiveConfig["listRows"] = (org_id, prefix) => store.config.list(org_id, prefix);

  return {
    listRows,
    open,
    async get(org_id, key) {
      const row = await store.config.get(org_id, key);
      return row === null ? undefined : open(org_id, row);
    },
    async list(org_id, prefix = "") {
      return new Map((await listRows(org_id, prefix)).map((row) => [row.key, open(org_id, row)]));
    },
    async write(org_id, change, records) {
      const set = Object.entries(change.set ?? {});
      const unset = change.unset ?? [];
      checkChange(set, unset);
      const sealed = set.map(([key, value]) => seal(org_id, key, value));
      const now = new Date(clock.now()).toISOString();
      const removed = await store.config.write(org_id, { set: sealed, unset }, now, records);
      for (const key of new Set([...removed, ...set.map(([written]) => written)]))
        changes.emit("config.updated", { org_id, key, prefix_match_hint: prefixMatchHint(key) });
      return removed;
    },
    onUpdated: (listener) =>
      changes.on("config.updated", ({ org_id, ...updated }) => listener(updated, org_id)),
  };
}

/** No stored secret can have this name, so a ciphertext that is copied from one table to the other cannot be opened. */
export function configSealName(key: string): string {
  return `config/${key}`;
}

/** Returns the key up to and including its last dot, so that subscribers can filter without parsing the key. */
function prefixMatchHint(key: string): string {
  return key.slice(0, key.lastIndexOf(".") + 1);
}

function checkChange(set: [string, Json][], unset: readonly string[]): void {
  const max = CONFIG_LIMITS.keys_per_write;
  if (set.length + unset.length > max) {
    throw limitError(`One write may change at most ${max} keys.`, "keys_per_write", max);
  }
  for (const [key, value] of set) {
    if (!isConfigKey(key)) throw invalidKeyError(key);
    const bytes = CONFIG_LIMITS.value_bytes;
    if (!fitsBytes(value, bytes)) {
      throw limitError(`The value of ${key} is larger than ${bytes} bytes.`, "value_bytes", bytes);
    }
  }
  for (const pattern of unset) {
    if (!isConfigKey(pattern) && configPrefixOf(pattern) === null) throw invalidKeyError(pattern);
  }
}

function invalidKeyError(key: string): BackplaneError {
  const message = `${JSON.stringify(key.slice(0, 64))} is not a configuration key. Write dotted segments of letters, digits, _ and -.`;
  return new BackplaneError("request.invalid", message, { details: { issues: [{ path: "key", message }] } });
}

function limitError(message: string, name: keyof typeof CONFIG_LIMITS, max: number): BackplaneError {
  return new BackplaneError("config.limit", message, { details: { limit: name, max } });
}
