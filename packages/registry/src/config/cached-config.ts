/**
 * Caches the configuration of an org for FRESH_MS, because every step of a turn reads it (benchmark loop.turn). A write
 * by this process is visible immediately, a write by another node within FRESH_MS. Until the next read, each value is
 * decrypted once, and the rows of a prefix are the same array, so a reader can key its own cache on it.
 */

import { codeOf, type Json } from "@backplane/contract";
import type { Clock, ConfigRow } from "@backplane/ports";
import type { LiveConfig } from "./live-config.ts";

const FRESH_MS = 250;

interface CachedOrg {
  read_at: number;
  all: Promise<ConfigRow[]>;
  prefixes: Map<string, Promise<ConfigRow[]>>;
}

export function createCachedConfig(live: LiveConfig, clock: Pick<Clock, "monotonic">): LiveConfig {
  const orgs = new Map<string, CachedOrg>();
  const decrypted_values = new WeakMap<ConfigRow, Json>();
  live.onUpdated((_, org_id) => orgs.delete(org_id));

  const readOrg = (org_id: string): CachedOrg => {
    const now = clock.monotonic();
    const cached = orgs.get(org_id);
    if (cached !== undefined && now - cached.read_at < FRESH_MS) return cached;
    const all = live.listRows(org_id, "").catch((error: unknown) => {
      // While the store is unavailable, a turn continues with the last values that were read.
      if (cached === undefined || codeOf(error) !== "store.unavailable") throw error;
      return cached.all;
    });
    const read: CachedOrg = { read_at: now, all, prefixes: new Map([["", all]]) };
    orgs.set(org_id, read);
    all.catch(() => {
      if (orgs.get(org_id) === read) orgs.delete(org_id);
    });
    return read;
  };

  const listRows = (org_id: string, prefix: string): Promise<ConfigRow[]> => {
    const { all, prefixes } = readOrg(org_id);
    let matching = prefixes.get(prefix);
    if (matching === undefined) {
      matching = all.then((rows) => rows.filter(({ key }) => key.startsWith(prefix)));
      matching.catch(() => {});
      prefixes.set(prefix, matching);
    }
    return matching;
  };

  const open = (org_id: string, row: ConfigRow): Json => {
    let value = decrypted_values.get(row);
    if (value === undefined) {
      value = live.open(org_id, row);
      decrypted_values.set(row, value);
    }
    return value;
  };

  return {
    listRows,
    open,
    onUpdated: (listener) => live.onUpdated(listener),
    async get(org_id, key) {
      const row = (await readOrg(org_id).all).find((entry) => entry.key === key);
      return row === undefined ? undefined : open(org_id, row);
    },
    async list(org_id, prefix = "") {
      return new Map((await listRows(org_id, prefix)).map((row) => [row.key, open(org_id, row)]));
    },
    async write(org_id, change, records) {
      try {
        return await live.write(org_id, change, records);
      } finally {
        orgs.delete(org_id);
      }
    },
  };
}
