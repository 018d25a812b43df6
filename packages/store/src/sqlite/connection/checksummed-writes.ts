/**
 * Adds the checksum of the row to inserts and updates, so that one statement writes both. Triggers would write every
 * row twice, and the statements of a turn would cost two and a half times as much (benchmark loop.turn.concurrent). An
 * insert of plain parameters gets the checksum as one more parameter; any other insert computes it with
 * `inserted_checksum`. An update computes it with `changed_checksum`, which first checks the old row: otherwise damaged
 * content would get a matching checksum. A statement of any other form is refused when it is prepared, so none can leave
 * a row without a checksum.
 */
import type { DatabaseSync, SQLOutputValue, StatementSync } from "node:sqlite";
import { crc32 } from "node:zlib";
import {
  blankNested,
  type ChecksummedTable,
  checksumOf,
  checksumPart,
  damagedRowError,
  quote,
  STATE_TABLE,
} from "./row-checksums.ts";

type Values = readonly SQLOutputValue[];

export interface ChecksummedWrite {
  text: string;
  /** The values of all parameters, given those of the original statement. */
  complete(values: Values): Values;
}

export interface ChecksummedWrites {
  /** Undefined if no checksum has to be added. Writes to STATE_TABLE set their checksum themselves. */
  rewrite(text: string): ChecksummedWrite | undefined;
  /** Call this when a transaction begins or ends. */
  forgetPositions(): void;
}

interface Update {
  table: ChecksummedTable;
  /** The changed columns, as indexes into the columns of the table. */
  changed: number[];
}

const INSERT = /^\s*insert into (\w+) \(\s*\)\s+values \(\s*\)/;
const UPDATE = /^\s*update (\w+) set /;
const ON_CONFLICT = /\sdo update set /;
const SET_END = /\s(?:where|returning)\s|$/;

export function createChecksummedWrites(
  database: DatabaseSync,
  checksummed: readonly ChecksummedTable[],
): ChecksummedWrites {
  const tables = new Map(checksummed.map((table) => [table.name, table]));
  const updates: Update[] = [];
  // (index of the update, checksum, columns of the row …, new values of the changed columns …)
  database.function("changed_checksum", { deterministic: true, varargs: true }, (index, sum, ...values) => {
    const { table, changed } = updates[Number(index)]!;
    const width = table.columns.length;
    // Most columns are unchanged, so their part of the text is built once for both checksums (benchmark hooks.delivery).
    const parts: string[] = [];
    let before = "";
    for (let n = 0; n < width; n++) before += parts[n] = checksumPart(values[n]!);
    if (crc32(before) !== sum) throw damagedRowError(table.name, values.slice(0, table.key_count));
    for (let n = 0; n < changed.length; n++) {
      const column = changed[n]!;
      const value = values[width + n]!;
      requireStorable(table, column, value);
      parts[column] = checksumPart(value);
    }
    let after = "";
    for (let n = 0; n < width; n++) after += parts[n]!;
    return crc32(after);
  });
  database.function("inserted_checksum", { deterministic: true, varargs: true }, (name, ...values) =>
    checksumOfStored(tables.get(String(name))!, values),
  );

  /** The next values of automatic keys in this transaction, by table. */
  const positions = new Map<string, number>();
  const position_queries = new Map<string, StatementSync>();
  const nextPosition = ({ name, automatic_key }: ChecksummedTable): number => {
    let position = positions.get(name);
    if (position === undefined) {
      let query = position_queries.get(name);
      if (query === undefined) {
        query = database.prepare(selectNextPosition(name, automatic_key!));
        position_queries.set(name, query);
      }
      position = query.get()!.position as number;
    }
    positions.set(name, position + 1);
    return position;
  };

  const rewriteInsert = (text: string, outer: string, match: RegExpExecArray, table: ChecksummedTable) => {
    const [names, expressions] = readLists(text, match[0]);
    const parameters = Math.max(0, ...[...text.matchAll(/\$(\d+)/g)].map(([, number]) => Number(number)));
    const automatic = table.automatic_key !== null && !names.includes(table.automatic_key);
    if (automatic) {
      names.push(table.automatic_key!);
      expressions.push(`$${parameters + 1}`);
    }
    const row = table.columns.map((column) => {
      const index = names.indexOf(column);
      return index === -1 ? "null" : expressions[index]!;
    });
    const omits_default = table.columns.some(
      (column) => !names.includes(column) && table.defaults.has(column),
    );
    if (omits_default || names.length !== expressions.length) refuseForm(text);
    const readRow = createRowReader(row);
    names.push("sum");
    expressions.push(
      readRow !== null
        ? `$${parameters + (automatic ? 2 : 1)}`
        : `inserted_checksum('${table.name}', ${row.join(", ")})`,
    );
    const rest = text.slice(match[0].length);
    return {
      text: `insert into ${table.name} (${names.join(", ")}) values (${expressions.join(", ")})${addOnConflict(rest, outer.slice(match[0].length), table)}`,
      complete(values: Values): Values {
        const all = [...values];
        if (automatic) all.push(nextPosition(table));
        if (readRow !== null) all.push(checksumOfStored(table, readRow(all)));
        return all;
      },
    };
  };

  const addOnConflict = (rest: string, outer: string, table: ChecksummedTable): string => {
    const match = ON_CONFLICT.exec(outer);
    return match === null ? rest : addSum(rest, outer, match.index + match[0].length, table);
  };

  /** Adds the checksum to the assignments that begin at `from`. */
  const addSum = (text: string, outer: string, from: number, table: ChecksummedTable): string => {
    const end = from + SET_END.exec(outer.slice(from))!.index;
    const changed: number[] = [];
    const expressions: string[] = [];
    for (const assignment of splitList(text.slice(from, end))) {
      const equals = assignment.indexOf("=");
      const column = table.columns.indexOf(assignment.slice(0, equals).trim());
      if (column === -1) refuseForm(text);
      changed.push(column);
      expressions.push(assignment.slice(equals + 1));
    }
    const index = updates.push({ table, changed }) - 1;
    const columns = ["sum", ...table.columns].map((column) => `${table.name}.${quote(column)}`);
    const sum = `changed_checksum(${[index, ...columns, ...expressions].join(", ")})`;
    return `${text.slice(0, end)}, sum = ${sum}${text.slice(end)}`;
  };

  return {
    rewrite(text) {
      const outer = blankNested(text);
      const insert = INSERT.exec(outer);
      const update = UPDATE.exec(outer);
      const name = insert?.[1] ?? update?.[1];
      if (!/^\s*(?:insert|update|replace|with)\b/i.test(outer)) return undefined;
      const table = tables.get(name ?? "");
      if (table === undefined) return refuseForm(text);
      if (name === STATE_TABLE || !table.has_checksum) return undefined;
      if (insert !== null) return rewriteInsert(text, outer, insert, table);
      return { text: addSum(text, outer, update![0].length, table), complete: (values) => values };
    },
    forgetPositions: () => positions.clear(),
  };
}

function refuseForm(text: string): never {
  throw new Error(`a checksum cannot be added to this form of statement: ${text}`);
}

/** The texts between the two pairs of parentheses of an insert. */
function readLists(text: string, blanked: string): [names: string[], expressions: string[]] {
  const first = blanked.indexOf("(");
  const second = blanked.indexOf("(", first + 1);
  const splitFrom = (from: number) => splitList(text.slice(from + 1, blanked.indexOf(")", from)));
  return [splitFrom(first), splitFrom(second)];
}

function splitList(text: string): string[] {
  const parts: string[] = [];
  let at = 0;
  for (const part of blankNested(text).split(",")) {
    parts.push(text.slice(at, at + part.length).trim());
    at += part.length + 1;
  }
  return parts;
}

/** Returns a function that reads the row from the parameters; null if an expression is not a parameter, number or null. */
function createRowReader(expressions: readonly string[]): ((parameters: Values) => Values) | null {
  if (!expressions.every((expression) => /^(?:\$\d+|\d+|null)$/.test(expression))) return null;
  const parameters = expressions.map((text) => (text.startsWith("$") ? Number(text.slice(1)) - 1 : -1));
  const literals = expressions.map((text) => (/^\d/.test(text) ? Number(text) : null));
  return (values) => parameters.map((index, n) => (index === -1 ? literals[n]! : values[index]!));
}

/** The key that SQLite would choose: above all existing keys, and with `autoincrement` above those that were deleted. */
function selectNextPosition(table: string, key: string): string {
  return `select max(coalesce((select seq from sqlite_sequence where name = '${table}'), 0),
    coalesce((select max(${quote(key)}) from ${quote(table)}), 0)) + 1 as position`;
}

/** Throws for a value that SQLite would convert before it stores it: the stored row would not match the checksum. */
function checksumOfStored(table: ChecksummedTable, row: Values): number {
  for (let n = 0; n < row.length; n++) requireStorable(table, n, row[n]!);
  return checksumOf(row);
}

function requireStorable(table: ChecksummedTable, column: number, value: SQLOutputValue): void {
  if (value === null) return;
  if (table.types[column] === "text" ? typeof value === "string" : Number.isFinite(value)) return;
  throw new Error(`${table.name}.${table.columns[column]} cannot store a ${typeof value}`);
}
