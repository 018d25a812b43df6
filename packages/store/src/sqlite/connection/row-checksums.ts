/**
 * Every row of a SQLite store has a checksum over all its columns, so that a changed byte on the disk is an error instead of
 * a wrong result. Each writing connection has TEMP triggers that write the checksum with the row and refuse to change a
 * damaged row, since a new checksum would hide the damage. Queries check each row that they return. Nothing in the file
 * depends on our functions, so any SQLite tool can read it.
 */
import type { DatabaseSync, SQLOutputValue } from "node:sqlite";
import { crc32 } from "node:zlib";
import type { Failure } from "../../ops/op.ts";

/** The checksum of a row that was damaged before its table changed. No content has this checksum. */
const KNOWN_DAMAGED = -1;

/** The only table without triggers; commit-counter.ts writes its checksum. */
export const STATE_TABLE = "store_state";

/** Excludes SQLite's own tables and the list of schema steps, which `schemaChecksum` covers. */
const TABLES = `select name from main.sqlite_schema where type = 'table' and name not like 'sqlite\\_%' escape '\\'
  and name <> 'schema_version' order by name`;

export interface ChecksummedTable {
  name: string;
  /** All but the checksum, the columns of the primary key first. */
  columns: string[];
  /** How many of them are the primary key. */
  key: number;
  has_rowid: boolean;
  has_sum: boolean;
}

export interface DamagedRow {
  table: string;
  /** The primary key as text. */
  id: string;
}

export function checksummedTables(database: DatabaseSync): ChecksummedTable[] {
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
export function addChecksumFunctions(database: DatabaseSync): void {
  database.function("row_sum", { deterministic: true, varargs: true }, (...values) => checksumOf(values));
  // (table, number of key columns, checksum, key columns …, other columns …)
  database.function("check_row", { deterministic: true, varargs: true }, (table, key, sum, ...values) => {
    if (checksumOf(values) !== sum)
      throw new DamagedRowError(String(table), idOf(values.slice(0, Number(key))));
    return 1;
  });
}

/** From now on writes of this connection update the checksums. Call it after the schema is up to date. */
export function addChecksumTriggers(database: DatabaseSync): void {
  for (const table of checksummedTables(database)) {
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

/** The call of `check_row` by table; `$alias` stands for the alias of the table in a statement. */
export function rowChecks(database: DatabaseSync): ReadonlyMap<string, string> {
  const checks = new Map<string, string>();
  for (const { name, columns, key, has_sum } of checksummedTables(database)) {
    if (!has_sum) continue;
    const listed = ["sum", ...columns].map((column) => `$alias.${quote(column)}`).join(", ");
    checks.set(name, `check_row('${name}', ${key}, ${listed})`);
  }
  return checks;
}

const TABLE = /\b(?:from|join)\s+(\w+)(?:\s+(?!where\b|join\b|on\b|order\b|limit\b|group\b|left\b)(\w+))?/gi;

/**
 * Adds a check of every returned row to a query, as a column named `row_checked`. It is not in the WHERE clause, where
 * SQLite substitutes a column by the value that it is compared with before it reads the row. Queries with only an aggregate
 * return no row; what a subquery reads comes from an index or ends up in a returned row.
 */
export function withRowChecks(text: string, checks: ReadonlyMap<string, string>): string {
  if (checks.size === 0 || !/^\s*select\b/i.test(text) || /^\s*select\s+(min|max|count)\(/i.test(text))
    return text;
  const outer = blankParentheses(text);
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

/** Replaces everything inside parentheses by blanks, keeping the length. */
function blankParentheses(text: string): string {
  let depth = 0;
  let outer = "";
  for (const char of text) {
    if (char === ")") depth--;
    outer += depth === 0 ? char : " ".repeat(char.length);
    if (char === "(") depth++;
  }
  return outer;
}

/** Rows whose checksum does not match, at most `limit` of each table. Throws for a table that cannot be read. */
export function findDamagedRows(database: DatabaseSync, limit: number): DamagedRow[] {
  const found: DamagedRow[] = [];
  for (const table of checksummedTables(database)) {
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
 * Runs a change of the schema or of rows without triggers, and computes all checksums again. The caller has begun a
 * transaction. Rows that were damaged before stay damaged.
 */
export function rewriteChecksums(database: DatabaseSync, change: () => void): void {
  const damaged = new Map<string, string>();
  for (const table of checksummedTables(database)) {
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
  for (const table of checksummedTables(database)) {
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

/** Covers the definitions of all tables and indexes, and the steps that created them. */
export function schemaChecksum(database: DatabaseSync): number {
  const parts = database
    .prepare("select type, name, tbl_name, sql from main.sqlite_schema order by type, name")
    .all() as Record<string, SQLOutputValue>[];
  const steps = database.prepare("select version, name from schema_version order by version").all() as Record<
    string,
    SQLOutputValue
  >[];
  return checksumOf([...parts, ...steps].flatMap((part) => Object.values(part)));
}

/** Each value is written with its type and length, so that different rows never give the same text. */
export function checksumOf(values: readonly SQLOutputValue[]): number {
  let text = "";
  for (const value of values) {
    if (typeof value === "string") text += `s${value.length}:${value}`;
    else if (value === null) text += "n";
    else if (value instanceof Uint8Array) text += `b${Buffer.from(value).toString("hex")};`;
    else text += `i${String(value)};`;
  }
  return crc32(text);
}

/** A refusal as in op.ts, which names the damaged row. */
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
