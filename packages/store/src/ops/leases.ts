/** A lease row stays after its release, so that its fencing token never decreases. For the clock see nowSql. */
import { jsonTexts, nowSql, type Op, type SqlDialect, sql } from "./op.ts";

/** $1 name, $2 holder, $3 now, $4 ttl */
const acquireSql = (dialect: SqlDialect) => `insert into leases (name, holder, fence, expires_at)
  values ($1, $2, 1, ${nowSql(dialect, "$3")} + $4)
  on conflict (name) do update set holder = excluded.holder, fence = leases.fence + 1, expires_at = excluded.expires_at
  where leases.expires_at <= ${nowSql(dialect, "$3")}`;

export function* acquireLease(
  p: { name: string; holder: string; now: number | null; ttl_ms: number },
  dialect: SqlDialect,
): Op<number | null> {
  const [row] = yield sql(`${acquireSql(dialect)} or leases.holder = $2 returning fence`, [
    p.name,
    p.holder,
    p.now,
    p.ttl_ms,
  ]);
  return (row?.fence as number | undefined) ?? null;
}

/** One holder may have several slots. A slot that another gateway acquires in between is skipped. */
export function* acquireSlot(
  p: { name: string; max: number; holder: string; now: number | null; ttl_ms: number },
  dialect: SqlDialect,
): Op<{ name: string; fence: number } | null> {
  const rows = yield sql(
    `select name from leases where name >= $1 and name < $2 and expires_at > ${nowSql(dialect, "$3")}`,
    [`${p.name}#`, `${p.name}$`, p.now],
  );
  const held = new Set(rows.map((row) => row.name));
  // Slots beyond `max` may still be held after it was lowered, so held slots are counted.
  if (held.size >= p.max) return null;
  for (let slot = 0; slot < p.max; slot++) {
    const name = `${p.name}#${slot}`;
    if (held.has(name)) continue;
    const [row] = yield sql(`${acquireSql(dialect)} returning fence`, [name, p.holder, p.now, p.ttl_ms]);
    if (row !== undefined) return { name, fence: row.fence as number };
  }
  return null;
}

export function* renewLeases(
  p: { names: string[]; holder: string; now: number | null; ttl_ms: number },
  dialect: SqlDialect,
): Op<number> {
  const now = nowSql(dialect, "$3");
  const rows = yield sql(
    `update leases set expires_at = ${now} + $4 where holder = $2 and expires_at > ${now}
      and name in (${jsonTexts(dialect, "$1")}) returning name`,
    [JSON.stringify(p.names), p.holder, p.now, p.ttl_ms],
  );
  return rows.length;
}

export function* releaseLease(name: string, holder: string): Op<boolean> {
  const rows = yield sql(
    "update leases set holder = '', expires_at = 0 where name = $1 and holder = $2 returning name",
    [name, holder],
  );
  return rows.length > 0;
}

/**
 * An SQL condition that restricts a claim to rows of nodes whose lease `node/…` has expired. A SQLite home is
 * exclusive, so every other node has exited and no parameter is used.
 */
export function expiredNodeCondition(dialect: SqlDialect, column: string, now: string): string {
  if (dialect === "sqlite") return "";
  return `and not exists (select 1 from leases l where l.name = 'node/' || ${column} and l.expires_at > ${nowSql(dialect, now)})`;
}
