import type { SqlDialect } from "../ops/op.ts";

/** One step of the schema. A released step never changes; a correction is a new step. */
export interface Migration {
  version: number;
  name: string;
  statements: readonly (string | Partial<Record<SqlDialect, string>>)[];
}

/**
 * Types in the statements: `{id}` is text sorted by bytes in both databases (ids, cursors), `{int}` an integer that a
 * JavaScript number represents exactly, `{serial}` numbers rows in the order of insertion. `{clustered}` stores a
 * SQLite table in the order of its primary key.
 */
const TOKENS: Record<SqlDialect, Record<string, string>> = {
  sqlite: {
    id: "text",
    int: "integer",
    serial: "integer primary key autoincrement",
    clustered: "without rowid",
  },
  postgres: {
    id: 'text collate "C"',
    int: "bigint",
    serial: "bigint generated always as identity primary key",
    clustered: "",
  },
};

export function expandStatements(migration: Migration, dialect: SqlDialect): string[] {
  return migration.statements
    .map((statement) => (typeof statement === "string" ? statement : statement[dialect]))
    .filter((statement) => statement !== undefined)
    .map((statement) => statement.replaceAll(/\{(\w+)\}/g, (_, token: string) => TOKENS[dialect][token]!));
}
