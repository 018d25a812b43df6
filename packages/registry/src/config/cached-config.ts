/**
 * The live configuration for those who ask at every step: one read of an org serves them for a moment. A write of
 * this process counts at once, another node's after that moment. Values are opened once; the rows of a prefix are the
 * same array while nothing changed, so that a reader may remember what it made of them.
 */

import { codeOf, type Json } from "@backplane/contract";
import type { Clock, ConfigRow } from "@backplane/ports";
import type { LiveConfig } from "./live-config.ts";

const FRESH_MS = 250;

interface Read {
  at: number;
  all: Promise<ConfigRow[]>;
  prefixes: Map<string, Promise<ConfigRow[]>>;
}

export function createCachedConfig(live: LiveConfig, clock: Pick<Clock, "monotonic">): LiveConfig {
  const orgs = new Map<string, Read>();
  const opened = new WeakMap<ConfigRow, Json>();
  live.onUpdated((_, org_id) => orgs.delete(org_id));

  const readOf = (org_id: string): Read => {
    const now = clock.monotonic();
    const known = orgs.get(org_id);
    if (known !== undefined && now - known.at < FRESH_MS) return known;
    const all = live.rows(org_id, "").catch((error: unknown) => {
      // Nothing was written while the store is away, so what was read last still holds.
      if (known === undefined || codeOf(error) !== "store.unavailable") throw error;
      return known.all;
    });
    const read: Read = { at: now, all, prefixes: new Map([["", all]]) };
    orgs.set(org_id, read);
    all.catch(() => {
      if (orgs.get(org_id) === read) orgs.delete(org_id);
    });
    return read;
  };

  const rows = (org_id: string, prefix: string): Promise<ConfigRow[]> => {
    const { all, prefixes } = readOf(org_id);
    let some = prefixes.get(prefix);
    if (some === undefined) {
      some = all.then((every) => every.filter(({ key }) => key.startsWith(prefix)));
      some.catch(() => {});
      prefixes.set(prefix, some);
    }
    return some;
  };

  const open = (org_id: string, row: ConfigRow): Json => {
    let value = opened.get(row);
    if (value === undefined) {
      value = live.open(org_id, row);
      opened.set(row, value);
    }
    return value;
  };

  return {
    rows,
    open,
    onUpdated: (listener) => live.onUpdated(listener),
    async get(org_id, key) {
      const row = (await readOf(org_id).all).find((one) => one.key === key);
      return row === undefined ? undefined : open(org_id, row);
    },
    async list(org_id, prefix = "") {
      return new Map((await rows(org_id, prefix)).map((row) => [row.key, open(org_id, row)]));
    },
    async write(org_id, change, facts) {
      try {
        return await live.write(org_id, change, facts);
      } finally {
        orgs.delete(org_id);
      }
    },
  };
}
