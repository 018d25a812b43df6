/** The live configuration of an org. A change is one transaction: removals, writes, the check of the bounds, facts. */
import { type Op, type Row, refuse, sql } from "../op.ts";
import { type FactRows, writeFacts } from "./facts.ts";

/** From a key up to and without another. */
export interface KeyRange {
  from: string;
  to: string;
}

export interface ConfigWrite {
  org_id: string;
  /** Sorted by key: two writers take their locks in the same order. */
  set: { key: string; value: string; sealed: number; bytes: number }[];
  unset: KeyRange[];
  now: string;
  max_keys: number;
  max_bytes: number;
  facts: FactRows;
}

export function* writeConfig(p: ConfigWrite): Op<string[]> {
  const removed: string[] = [];
  for (const { from, to } of p.unset) {
    const gone = yield sql("delete from config where org_id = $1 and key >= $2 and key < $3 returning key", [
      p.org_id,
      from,
      to,
    ]);
    removed.push(...gone.map((row) => row.key as string));
  }
  for (const row of p.set) {
    yield sql(
      `insert into config (org_id, key, bytes, sealed, updated_at, value) values ($1, $2, $3, $4, $5, $6)
        on conflict (org_id, key) do update set bytes = excluded.bytes, sealed = excluded.sealed,
          updated_at = excluded.updated_at, value = excluded.value`,
      [p.org_id, row.key, row.bytes, row.sealed, p.now, row.value],
    );
  }
  if (p.set.length > 0) yield* checkBounds(p);
  if (p.set.length + removed.length > 0) yield* writeFacts(p.facts);
  return removed.sort();
}

function* checkBounds(p: ConfigWrite): Op<void> {
  const [held] = yield sql(
    "select count(*) as keys, cast(coalesce(sum(bytes), 0) as bigint) as bytes from config where org_id = $1",
    [p.org_id],
  );
  if ((held!.keys as number) > p.max_keys) {
    refuse("config.limit", `An org holds at most ${p.max_keys} configuration keys.`, {
      limit: "keys_per_org",
      max: p.max_keys,
    });
  }
  if ((held!.bytes as number) > p.max_bytes) {
    refuse("config.limit", `The configuration of an org holds at most ${p.max_bytes} bytes.`, {
      limit: "bytes_per_org",
      max: p.max_bytes,
    });
  }
}

const ROW = "key, value, sealed";

export function* readConfig(org_id: string, key: string): Op<Row | undefined> {
  return (yield sql(`select ${ROW} from config where org_id = $1 and key = $2`, [org_id, key]))[0];
}

export function* listConfig(org_id: string, { from, to }: KeyRange): Op<Row[]> {
  return yield sql(`select ${ROW} from config where org_id = $1 and key >= $2 and key < $3 order by key`, [
    org_id,
    from,
    to,
  ]);
}
