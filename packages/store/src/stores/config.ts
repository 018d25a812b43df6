import { CONFIG_LIMITS } from "@backplane/contract";
import type { ConfigRow, ConfigStore } from "@backplane/ports";
import type { Backend } from "../backend/backend.ts";
import { type KeyRange, listConfig, readConfigValue } from "../ops/config.ts";
import type { Row } from "../ops/op.ts";
import { encodeRecords } from "./change-records.ts";

export function createConfigStore(backend: Backend): ConfigStore {
  return {
    async get(org_id, key) {
      const row = await backend.read(() => readConfigValue(org_id, key));
      return row === undefined ? null : decode(row);
    },
    list: async (org_id, prefix) =>
      (await backend.read(() => listConfig(org_id, keysWithPrefix(prefix)))).map(decode),
    async write(org_id, change, now, records) {
      const removed = await backend.write("writeConfig", {
        org_id,
        set: change.set.map(encode).toSorted((a, b) => compare(a.key, b.key)),
        unset: change.unset.map(rangeOf).toSorted((a, b) => compare(a.from, b.from)),
        now,
        max_keys: CONFIG_LIMITS.keys_per_org,
        max_bytes: CONFIG_LIMITS.bytes_per_org,
        records: encodeRecords(records),
      });
      if (records.events !== undefined) backend.notifyAppended();
      return removed.filter((key) => change.set.every((row) => row.key !== key));
    },
  };
}

function encode({ key, value, sealed }: ConfigRow) {
  return { key, value, sealed: sealed ? 1 : 0, bytes: key.length + Buffer.byteLength(value) };
}

function decode(row: Row): ConfigRow {
  return { key: row.key as string, value: row.value as string, sealed: row.sealed === 1 };
}

function rangeOf(pattern: string): KeyRange {
  // "!" sorts before every character that a key may contain, so the range is this key alone.
  return pattern.endsWith(".*") ? keysWithPrefix(pattern.slice(0, -1)) : { from: pattern, to: `${pattern}!` };
}

/** Keys are ASCII and sorted by bytes; "~" sorts after every character that they may contain. */
function keysWithPrefix(prefix: string): KeyRange {
  return { from: prefix, to: `${prefix}~` };
}

function compare(a: string, b: string): number {
  return a < b ? -1 : a > b ? 1 : 0;
}
