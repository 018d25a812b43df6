/** Takes damaged rows out of a store, so that lists work again. */
import { appendFileSync } from "node:fs";
import type { DatabaseSync } from "node:sqlite";
import { type DamagedRow, STATE_TABLE, summedTables, sumOf } from "../connection/row-checksums.ts";

/**
 * The audit log loses no row: its hashes show what was changed, so its rows only get a new checksum, like the two rows
 * that the store cannot be without.
 */
const KEPT = new Set(["audit", "audit_head", STATE_TABLE]);

/** Writes each as a line of JSON first. */
export function setDamagedRowsAside(database: DatabaseSync, file: string): DamagedRow[] {
  const taken: DamagedRow[] = [];
  database.exec("pragma foreign_keys = off; begin immediate");
  for (const { name, columns, key, has_rowid, has_sum } of summedTables(database)) {
    if (!has_sum) continue;
    const quoted = columns.map((column) => `"${column}"`);
    const find = database.prepare(
      `select ${has_rowid ? "rowid as own_rowid, " : ""}${quoted.join(", ")} from "${name}" where sum is not row_sum(${quoted.join(", ")})`,
    );
    const where = has_rowid
      ? "rowid = ?"
      : quoted
          .slice(0, key)
          .map((column) => `${column} is ?`)
          .join(" and ");
    for (const row of find.all()) {
      const values = columns.map((column) => row[column]!);
      const at = has_rowid ? [row.own_rowid!] : values.slice(0, key);
      const id = values
        .slice(0, key)
        .map((value) => JSON.stringify(String(value)))
        .join(", ");
      appendFileSync(file, `${JSON.stringify({ table: name, row: { ...row, own_rowid: undefined } })}\n`, {
        mode: 0o600,
      });
      if (KEPT.has(name))
        database.prepare(`update "${name}" set sum = ? where ${where}`).run(sumOf(values), ...at);
      else database.prepare(`delete from "${name}" where ${where}`).run(...at);
      taken.push({ table: name, id });
    }
  }
  database.exec("commit");
  return taken;
}
