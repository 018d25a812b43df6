/**
 * Every row of a SQLite store has a checksum over all its columns, so that a changed byte on the disk is an error
 * instead of a wrong result. Writes set the checksum (checksummed-writes.ts), and queries check the rows that they
 * read. Nothing in the database file depends on our functions, so any SQLite tool can read it.
 */
import type { DatabaseSync, SQLOutputValue } from "node:sqlite";
import { crc32 } from "node:zlib";
import type { StoreFailure } from "../../ops/op.ts";

/** The checksum of a row that was damaged before its table changed. No content has this checksum. */
const KNOWN_DAMAGED = -1;

/** Written by commit-counter.ts, with its checksum. */
export const STATE_TABLE = "store_state";

/** Excludes SQLite's internal tables and the table of applied migrations, which `schemaChecksum` covers. */
const COLUMNS = `select own.name as "table", col.name, col.type, col.dflt_value, col.pk
  from main.sqlite_schema own join pragma_table_info(own.name, 'main') col
  where own.type = 'table' and own.name not like 'sqlite\\_%' escape '\\' and own.name <> 'schema_version'
  order by own.name, col.cid`;

export interface ChecksummedTable {
  name: string;
  /** All but the checksum, the columns of the primary key first. */
  columns: string[];
  /** The declared type of each of them, in lower case. */
  types: string[];
  /** Columns with a default other than null. */
  defaults: ReadonlySet<string>;
  /** The column that SQLite fills in when an insert leaves it out. */
  automatic_key: string | null;
  /** How many of `columns` form the primary key. */
  key_count: number;
  has_rowid: boolean;
  has_checksum: boolean;
}

interface Column {
  table: string;
  name: string;
  type: string;
  dflt_value: string | null;
  pk: number;
}

export interface DamagedRow {
  table: string;
  /** The primary key as text. */
  id: string;
}

export function checksummedTables(database: DatabaseSync): ChecksummedTable[] {
  // One statement for all tables, because every open of a store reads them.
  const all_columns = database.prepare(COLUMNS).all() as unknown as Column[];
  const listed = database.prepare("pragma main.table_list").all() as { name: string; wr: number }[];
  const without_rowid = new Map(listed.map(({ name, wr }) => [name, wr]));
  return [...Map.groupBy(all_columns, ({ table }) => table)].map(([name, columns]) => {
    const data_columns = columns.filter((column) => column.name !== "sum");
    const key = data_columns.filter(({ pk }) => pk > 0).sort((a, b) => a.pk - b.pk);
    const rest = data_columns.filter(({ pk }) => pk === 0);
    const ordered = [...key, ...rest];
    const has_rowid = without_rowid.get(name) !== 1;
    const [first] = key;
    const numbered = has_rowid && key.length === 1 && first!.type.toLowerCase() === "integer";
    return {
      name,
      columns: ordered.map((column) => column.name),
      types: ordered.map((column) => column.type.toLowerCase()),
      defaults: new Set(rest.filter(({ dflt_value }) => dflt_value !== null).map((column) => column.name)),
      automatic_key: numbered ? first!.name : null,
      key_count: key.length,
      has_rowid,
      has_checksum: data_columns.length < columns.length,
    };
  });
}

/** Adds the functions `row_checksum` and `check_row` to a connection. */
export function addChecksumFunctions(database: DatabaseSync): void {
  database.function("row_checksum", { deterministic: true, varargs: true }, (...values) =>
    checksumOf(values),
  );
  // (table, number of key columns, checksum, key columns …, other columns …)
  database.function(
    "check_row",
    { deterministic: true, varargs: true },
    (table, key_count, sum, ...values) => {
      checkValues(String(table), Number(key_count), sum!, values);
      return 1;
    },
  );
}

/** Throws when the values of a row do not match its checksum. The first `key_count` values are its primary key. */
function checkValues(
  table: string,
  key_count: number,
  sum: SQLOutputValue,
  values: readonly SQLOutputValue[],
): void {
  if (checksumOf(values) !== sum) throw damagedRowError(table, values.slice(0, key_count));
}

/**
 * The call to `check_row` for each table, in which `$alias` is a placeholder for the alias of the table in a statement.
 */
export function rowChecks(tables: readonly ChecksummedTable[]): ReadonlyMap<string, string> {
  const checks = new Map<string, string>();
  for (const { name, columns, key_count, has_checksum } of tables) {
    if (!has_checksum) continue;
    const listed = ["sum", ...columns].map((column) => `$alias.${quote(column)}`).join(", ");
    checks.set(name, `check_row('${name}', ${key_count}, ${listed})`);
  }
  return checks;
}

/** As written by `checkedCondition`. */
const OR_DAMAGED = /\/\* or damaged (\w+) \*\//g;
const TABLE = /\b(?:from|join)\s+(\w+)(?:\s+(?!where\b|join\b|on\b|order\b|limit\b|group\b|left\b)(\w+))?/gi;

/**
 * Adds a check of every returned row to a query, as a column named `row_checked`. The check is not in the WHERE clause,
 * because there SQLite replaces a column with the value that it is compared with, before it reads the row. SQLite does
 * not do so in a subquery, so the rows that a `checkedCondition` excludes are checked in one. A query that only
 * aggregates is not checked: it returns no row of a table. Other subqueries need no check: they read only indexed
 * columns, or their rows are part of a returned row.
 */
export function withRowChecks(text: string, checks: ReadonlyMap<string, string>): string {
  if (checks.size === 0 || !/^\s*select\b/i.test(text) || /^\s*select\s+(min|max|count)\(/i.test(text))
    return text;
  const outer = blankNested(text);
  const from = /\sfrom\s/i.exec(outer);
  if (from === null || /\bgroup by\b/i.test(outer)) return text;
  const calls = new Map<string, string>();
  for (const [, table, alias] of outer.slice(from.index).matchAll(TABLE)) {
    const check = checks.get(table!);
    if (check !== undefined) calls.set(alias ?? table!, check.replaceAll("$alias", alias ?? table!));
  }
  if (calls.size === 0) return text;
  // `check_row` never returns null: it throws for a damaged row.
  const rest = text
    .slice(from.index)
    .replaceAll(
      OR_DAMAGED,
      (_, name: string) => `or (select ${calls.get(name) ?? throwUnknownTable(name, text)}) is null`,
    );
  return `${text.slice(0, from.index)}, ${[...calls.values()].join(" + ")} as row_checked${rest}`;
}

function throwUnknownTable(name: string, text: string): never {
  throw new Error(`the query has no table named ${name} with checksums: ${text}`);
}

/** Replaces everything inside parentheses and quotes with blanks, keeping the length. */
export function blankNested(text: string): string {
  let depth = 0;
  let quoted = false;
  let outer = "";
  for (const char of text) {
    if (char === "'") quoted = !quoted;
    else if (char === ")" && !quoted) depth--;
    outer += depth === 0 && !quoted && char !== "'" ? char : " ".repeat(char.length);
    if (char === "(" && !quoted) depth++;
  }
  return outer;
}

/** Returns rows whose checksum does not match, at most `limit` per table. Throws for a table that cannot be read. */
export function findDamagedRows(database: DatabaseSync, limit: number): DamagedRow[] {
  const rows: DamagedRow[] = [];
  for (const table of checksummedTables(database)) {
    if (!table.has_checksum) continue;
    const listed = table.columns.map(quote).join(", ");
    const key_columns =
      table.key_count === 0 ? "rowid" : listed.split(", ").slice(0, table.key_count).join(", ");
    const statement = database.prepare(
      `select ${key_columns} from main.${quote(table.name)} where sum is not row_checksum(${listed}) limit ${limit}`,
    );
    statement.setReadBigInts(true);
    for (const row of statement.all()) rows.push({ table: table.name, id: rowId(Object.values(row)) });
  }
  return rows;
}

/**
 * Runs a change to the schema or to rows, and computes all checksums again. The caller has begun a transaction. Rows
 * that were damaged before stay damaged.
 */
export function rewriteChecksums(database: DatabaseSync, change: () => void): void {
  const damaged = new Map<string, string>();
  for (const table of checksummedTables(database)) {
    if (!table.has_checksum) continue;
    const damaged_rows = `damaged_${table.name}`;
    const key = table.key_count === 0 ? ["rowid"] : table.columns.slice(0, table.key_count).map(quote);
    const listed = table.columns.map(quote).join(", ");
    database.exec(
      `create temp table ${quote(damaged_rows)} as select ${key.map((column, n) => `${column} as k${n}`).join(", ")}
        from main.${quote(table.name)} where sum is not row_checksum(${listed})`,
    );
    damaged.set(
      table.name,
      key.map((column, n) => `k${n} is main.${quote(table.name)}.${column}`).join(" and "),
    );
  }
  change();
  for (const table of checksummedTables(database)) {
    if (!table.has_checksum) database.exec(`alter table main.${quote(table.name)} add column sum integer`);
    const sum = `row_checksum(${table.columns.map(quote).join(", ")})`;
    const same_row = damaged.get(table.name);
    const value =
      same_row === undefined
        ? sum
        : `case when exists (select 1 from temp.${quote(`damaged_${table.name}`)} where ${same_row}) then ${KNOWN_DAMAGED} else ${sum} end`;
    database.exec(`update main.${quote(table.name)} set sum = ${value}`);
  }
  for (const name of damaged.keys()) database.exec(`drop table temp.${quote(`damaged_${name}`)}`);
}

/** Covers the definitions of all tables and indexes, and the migrations that created them. */
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

/** Each value has its type and its length or a terminator, so that different rows never give the same text. */
export function checksumOf(values: readonly SQLOutputValue[]): number {
  let text = "";
  for (let n = 0; n < values.length; n++) text += checksumPart(values[n]!);
  return crc32(text);
}

/** The part of one value in the text whose CRC is the checksum of a row. */
export function checksumPart(value: SQLOutputValue): string {
  if (typeof value === "string") return `s${value.length}:${value}`;
  if (value === null) return "n";
  if (value instanceof Uint8Array) return `b${Buffer.from(value).toString("hex")};`;
  return `i${String(value)};`;
}

export function damagedRowError(table: string, key: readonly SQLOutputValue[]): Error {
  return new DamagedRowError(table, rowId(key));
}

/** Carries a StoreFailure (ops/op.ts) that identifies the damaged row. */
class DamagedRowError extends Error {
  readonly failure: StoreFailure;
  constructor(table: string, id: string) {
    const message = `The row ${id} of the table ${table} is damaged: its content does not match its checksum.`;
    super(message);
    this.name = "DamagedRowError";
    this.failure = { code: "store.damaged", message, details: { table, id } };
  }
}

const MAX_ID_CHARS = 120;

function rowId(key: readonly unknown[]): string {
  return key.map((part) => JSON.stringify(String(part)).slice(0, MAX_ID_CHARS)).join(", ") || "(no key)";
}

export function quote(name: string): string {
  return `"${name.replaceAll('"', '""')}"`;
}
