/**
 * Every row of a SQLite store carries a checksum over all its columns, so that a changed byte on the disk is an error
 * and not an answer. Each connection that writes brings its own TEMP triggers, which write the checksum with the row and
 * refuse to change a damaged row, since a new checksum would hide the damage; queries check each row that they return.
 * Nothing in the file depends on our functions, so any SQLite tool can read it.
 */
import type { DatabaseSync, SQLOutputValue } from "node:sqlite";
import { crc32 } from "node:zlib";
import type { Failure } from "../../ops/op.ts";

/** The checksum of a row whose damage was known when its table changed: no content has it. */
const KNOWN_DAMAGED = -1;

/** The one table whose checksum no trigger writes: commit-counter.ts does. */
export const STATE_TABLE = "store_state";

/** Without a checksum: SQLite's own tables, and the list of schema steps, which `schemaSum` covers. */
const TABLES = `select name from main.sqlite_schema where type = 'table' and name not like 'sqlite\\_%' escape '\\'
  and name <> 'schema_version' order by name`;

export interface SummedTable {
  name: string;
  /** All but the checksum; those of the primary key first. */
  columns: string[];
  /** How many of them are the primary key. */
  key: number;
  has_rowid: boolean;
  has_sum: boolean;
}

export interface DamagedRow {
  table: string;
  /** The primary key as stored, as text. */
  id: string;
}

export function summedTables(database: DatabaseSync): SummedTable[] {
  const names = database.prepare(TABLES).all() as { name: string }[];
  const listed = database.prepare("pragma main.table_list").all() as { name: string; wr: number }[];
  const without = new Map(listed.map(({ name, wr }) => [name, wr]));
  return names.map(({ name }) => {
    const columns = database.prepare(`pragma main.table_info(${quote(name)})`).all() as {
      name: string;
      pk: number;
    }[];
    const own = columns.filter((column) => column.name !== "sum");
    const key = own.filter(({ pk }) => pk > 0).sort((a, b) => a.pk - b.pk);
    const rest = own.filter(({ pk }) => pk === 0);
    return {
      name,
      columns: [...key, ...rest].map((column) => column.name),
      key: key.length,
      has_rowid: without.get(name) !== 1,
      has_sum: own.length < columns.length,
    };
  });
}

/** Adds the functions `row_sum` and `check_row` to a connection. */
export function addSumFunctions(database: DatabaseSync): void {
  database.function("row_sum", { deterministic: true, varargs: true }, (...values) => sumOf(values));
  // (table, number of key columns, checksum, key columns …, other columns …)
  database.function("check_row", { deterministic: true, varargs: true }, (table, key, sum, ...values) => {
    if (sumOf(values) !== sum) throw new DamagedRowError(String(table), idOf(values.slice(0, Number(key))));
    return 1;
  });
}

/** Makes every write of this connection keep the checksums. Call it after the schema is up to date. */
export function addSumTriggers(database: DatabaseSync): void {
  for (const table of summedTables(database)) {
    if (!table.has_sum || table.name === STATE_TABLE) continue;
    const name = quote(table.name);
    const old = table.columns.map((column) => `old.${quote(column)}`).join(", ");
    const fresh = table.columns.map((column) => `new.${quote(column)}`).join(", ");
    const row = table.has_rowid
      ? "rowid = new.rowid"
      : table.columns
          .slice(0, table.key)
          .map((column) => `${quote(column)} is new.${quote(column)}`)
          .join(" and ");
    const set = `update ${name} set sum = row_sum(${fresh}) where ${row}`;
    const listed = table.columns.map(quote).join(", ");
    database.exec(
      `create temp trigger ${quote(`sum_insert_${table.name}`)} after insert on main.${name} begin ${set}; end;
       create temp trigger ${quote(`sum_update_${table.name}`)} after update of ${listed} on main.${name} begin
         select check_row('${table.name}', ${table.key}, old.sum, ${old});
         ${set};
       end;`,
    );
  }
}

/** The call of `check_row` for each table, by name; `$alias` stands for what the statement calls the table. */
export function rowChecks(database: DatabaseSync): ReadonlyMap<string, string> {
  const checks = new Map<string, string>();
  for (const { name, columns, key, has_sum } of summedTables(database)) {
    if (!has_sum) continue;
    const listed = ["sum", ...columns].map((column) => `$alias.${quote(column)}`).join(", ");
    checks.set(name, `check_row('${name}', ${key}, ${listed})`);
  }
  return checks;
}

const TABLE = /\b(?:from|join)\s+(\w+)(?:\s+(?!where\b|join\b|on\b|order\b|limit\b|group\b|left\b)(\w+))?/gi;

/**
 * The query with a check of every row that it returns: one more column, named `row_checked`. Not in the WHERE clause,
 * where SQLite replaces a column by the value that it is compared with before it looks at the row. Queries that only
 * count or take an extreme return no row; what a subquery reads comes from an index or ends up in a row that is returned.
 */
export function withRowChecks(text: string, checks: ReadonlyMap<string, string>): string {
  if (checks.size === 0 || !/^\s*select\b/i.test(text) || /^\s*select\s+(min|max|count)\(/i.test(text))
    return text;
  const outer = hideParentheses(text);
  const from = /\sfrom\s/i.exec(outer);
  if (from === null || /\bgroup by\b/i.test(outer)) return text;
  const calls: string[] = [];
  for (const [, table, alias] of outer.slice(from.index).matchAll(TABLE)) {
    const check = checks.get(table!);
    if (check !== undefined) calls.push(check.replaceAll("$alias", alias ?? table!));
  }
  if (calls.length === 0) return text;
  return `${text.slice(0, from.index)}, ${calls.join(" + ")} as row_checked${text.slice(from.index)}`;
}

/** The same length, with a blank for everything inside parentheses. */
function hideParentheses(text: string): string {
  let depth = 0;
  let outer = "";
  for (const char of text) {
    if (char === ")") depth--;
    outer += depth === 0 ? char : " ".repeat(char.length);
    if (char === "(") depth++;
  }
  return outer;
}

/** Rows whose checksum does not match, at most `limit` of each table. A table that cannot be read throws. */
export function findDamagedRows(database: DatabaseSync, limit: number): DamagedRow[] {
  const found: DamagedRow[] = [];
  for (const table of summedTables(database)) {
    if (!table.has_sum) continue;
    const listed = table.columns.map(quote).join(", ");
    const shown = table.key === 0 ? "rowid" : listed.split(", ").slice(0, table.key).join(", ");
    const statement = database.prepare(
      `select ${shown} from main.${quote(table.name)} where sum is not row_sum(${listed}) limit ${limit}`,
    );
    statement.setReadBigInts(true);
    for (const row of statement.all()) found.push({ table: table.name, id: idOf(Object.values(row)) });
  }
  return found;
}

/**
 * Runs a change of the schema or of rows without triggers, and gives every row its checksum anew; within a transaction
 * of the caller. Rows that were damaged before stay so.
 */
export function keepingSums(database: DatabaseSync, change: () => void): void {
  const damaged = new Map<string, string>();
  for (const table of summedTables(database)) {
    if (!table.has_sum) continue;
    const kept = `damaged_${table.name}`;
    const key = table.key === 0 ? ["rowid"] : table.columns.slice(0, table.key).map(quote);
    const listed = table.columns.map(quote).join(", ");
    database.exec(
      `create temp table ${quote(kept)} as select ${key.map((column, n) => `${column} as k${n}`).join(", ")}
        from main.${quote(table.name)} where sum is not row_sum(${listed})`,
    );
    damaged.set(
      table.name,
      key.map((column, n) => `k${n} is main.${quote(table.name)}.${column}`).join(" and "),
    );
  }
  change();
  for (const table of summedTables(database)) {
    if (!table.has_sum) database.exec(`alter table main.${quote(table.name)} add column sum integer`);
    const sum = `row_sum(${table.columns.map(quote).join(", ")})`;
    const same = damaged.get(table.name);
    const value =
      same === undefined
        ? sum
        : `case when exists (select 1 from temp.${quote(`damaged_${table.name}`)} where ${same}) then ${KNOWN_DAMAGED} else ${sum} end`;
    database.exec(`update main.${quote(table.name)} set sum = ${value}`);
  }
  for (const name of damaged.keys()) database.exec(`drop table temp.${quote(`damaged_${name}`)}`);
}

/** Over every table, index and column as the schema spells them, and over the steps that made it. */
export function schemaSum(database: DatabaseSync): number {
  const parts = database
    .prepare("select type, name, tbl_name, sql from main.sqlite_schema order by type, name")
    .all() as Record<string, SQLOutputValue>[];
  const steps = database.prepare("select version, name from schema_version order by version").all() as Record<
    string,
    SQLOutputValue
  >[];
  return sumOf([...parts, ...steps].flatMap((part) => Object.values(part)));
}

/** Each value with its type and length, so that no two rows serializeEntry the same text. */
export function sumOf(values: readonly SQLOutputValue[]): number {
  let text = "";
  for (const value of values) {
    if (typeof value === "string") text += `s${value.length}:${value}`;
    else if (value === null) text += "n";
    else if (value instanceof Uint8Array) text += `b${Buffer.from(value).toString("hex")};`;
    else text += `i${String(value)};`;
  }
  return crc32(text);
}

/** A refusal of op.ts: it says which row, wherever it was read. */
class DamagedRowError extends Error {
  readonly failure: Failure;
  constructor(table: string, id: string) {
    const message = `The row ${id} of the table ${table} is damaged: its content does not match its checksum.`;
    super(message);
    this.name = "DamagedRowError";
    this.failure = { code: "store.damaged", message, details: { table, id } };
  }
}

const MAX_ID_CHARS = 120;

function idOf(key: readonly unknown[]): string {
  return key.map((part) => JSON.stringify(String(part)).slice(0, MAX_ID_CHARS)).join(", ") || "(no key)";
}

function quote(name: string): string {
  return `"${name.replaceAll('"', '""')}"`;
}
