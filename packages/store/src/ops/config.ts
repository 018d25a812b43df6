/**
 * The live configuration of an org. A change is one transaction: removals, writes, the check of the limits, records.
 */
import { configGroupOf, isDestinationConfig } from "@backplane/contract";
import { type ChangeRecordRows, writeRecords } from "./change-records.ts";
import { type Op, type Row, refuse, sql } from "./op.ts";

/** `to` is not part of the range. */
export interface KeyRange {
  from: string;
  to: string;
}

export interface ConfigWrite {
  org_id: string;
  /** Sorted by key, so that two writers take their locks in the same order. */
  set: { key: string; value: string; sealed: number; bytes: number }[];
  unset: KeyRange[];
  now: string;
  max_keys: number;
  max_bytes: number;
  records: ChangeRecordRows;
}

export function* writeConfig(p: ConfigWrite): Op<string[]> {
  const deleted_rows: Row[] = [];
  for (const { from, to } of p.unset) {
    const rows = yield sql(
      "delete from config where org_id = $1 and key >= $2 and key < $3 returning key, value, sealed",
      [p.org_id, from, to],
    );
    deleted_rows.push(...rows);
  }
  const removed = deleted_rows.map((row) => row.key as string);
  removed.push(...(yield* dropCredentials(p, deleted_rows)));
  for (const row of p.set) {
    yield sql(
      `insert into config (org_id, key, bytes, sealed, updated_at, value) values ($1, $2, $3, $4, $5, $6)
        on conflict (org_id, key) do update set bytes = excluded.bytes, sealed = excluded.sealed,
          updated_at = excluded.updated_at, value = excluded.value`,
      [p.org_id, row.key, row.bytes, row.sealed, p.now, row.value],
    );
  }
  if (p.set.length > 0) yield* checkLimits(p);
  if (p.set.length + removed.length > 0) yield* writeRecords(p.records);
  return removed.sort();
}

/**
 * A stored credential belongs to the destination that it was given for. When the destination changes, the sealed values
 * of the same group are removed in the same transaction, whoever makes the change, unless the same write sets them
 * again.
 */
function* dropCredentials(p: ConfigWrite, removed: readonly Row[]): Op<string[]> {
  const changed = removed.filter(isDestination).map(({ key }) => key as string);
  const removed_keys = new Set(removed.map(({ key }) => key));
  for (const row of p.set) {
    const { key, value } = row;
    if (removed_keys.has(key)) continue;
    const [stored] = yield sql("select key, value, sealed from config where org_id = $1 and key = $2", [
      p.org_id,
      key,
    ]);
    if (!isDestination(row) && (stored === undefined || !isDestination(stored))) continue;
    // Before `plugin` is set there is no instance, so its secrets have not been sent anywhere yet.
    const is_new_plugin = stored === undefined && key.endsWith(".plugin");
    if (!is_new_plugin && stored?.value !== value) changed.push(key);
  }
  const dropped: string[] = [];
  const set_keys = new Set(p.set.map(({ key }) => key));
  for (const group of new Set(changed.map(configGroupOf))) {
    if (group === null) continue;
    const sealed = yield sql(
      "select key from config where org_id = $1 and key >= $2 and key < $3 and sealed = 1 order by key",
      [p.org_id, group, `${group}~`],
    );
    for (const { key } of sealed) {
      if (set_keys.has(key as string) || configGroupOf(key as string) !== group) continue;
      yield sql("delete from config where org_id = $1 and key = $2", [p.org_id, key as string]);
      dropped.push(key as string);
    }
  }
  return dropped;
}

/** A sealed value is ciphertext, so only its key shows whether it is a destination. */
function isDestination({ key, value, sealed }: Row): boolean {
  return isDestinationConfig(key as string, sealed === 1 ? "" : (value as string));
}

function* checkLimits(p: ConfigWrite): Op<void> {
  const [totals] = yield sql(
    "select count(*) as keys, cast(coalesce(sum(bytes), 0) as bigint) as bytes from config where org_id = $1",
    [p.org_id],
  );
  if ((totals!.keys as number) > p.max_keys) {
    refuse("config.limit", `An organization can have at most ${p.max_keys} configuration keys.`, {
      limit: "keys_per_org",
      max: p.max_keys,
    });
  }
  if ((totals!.bytes as number) > p.max_bytes) {
    refuse("config.limit", `The configuration of an organization holds at most ${p.max_bytes} bytes.`, {
      limit: "bytes_per_org",
      max: p.max_bytes,
    });
  }
}

const CONFIG_COLUMNS = "key, value, sealed";

export function* readConfigValue(org_id: string, key: string): Op<Row | undefined> {
  return (yield sql(`select ${CONFIG_COLUMNS} from config where org_id = $1 and key = $2`, [org_id, key]))[0];
}

export function* listConfig(org_id: string, { from, to }: KeyRange): Op<Row[]> {
  return yield sql(
    `select ${CONFIG_COLUMNS} from config where org_id = $1 and key >= $2 and key < $3 order by key`,
    [org_id, from, to],
  );
}
