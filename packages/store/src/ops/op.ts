/**
 * Every operation is written once, as a generator that yields statements and gets rows back. SQLite runs it
 * synchronously inside the writer's batch, PostgreSQL asynchronously inside a transaction. An operation keeps no state
 * between runs, so an executor may run it again from the start.
 *
 * The writer thread loads this folder, so nothing here imports more than node:crypto and plain functions of the
 * contract: the memory of that thread counts against the idle gateway (benchmark boot.rss).
 */
export type SqlValue = string | number | null;
export type Row = Record<string, SqlValue>;
export type SqlDialect = "sqlite" | "postgres";

export interface Statement {
  text: string;
  values: readonly SqlValue[];
  /** SQLite only: rows are returned without comparing them with their checksums. */
  unchecked?: true;
}

/**
 * On SQLite a write without `returning` yields one empty row when it changed something and no row otherwise, because
 * `returning` would slow down a frequent update by about a tenth (benchmark store.append).
 */
export type Op<T> = Generator<Statement, T, Row[]>;

/** Placeholders are $1, $2 … A statement is prepared once per text, so build texts from constants only. */
export function sql(text: string, values: readonly SqlValue[] = []): Statement {
  return { text, values };
}

/**
 * A query whose rows the same operation then updates. The update verifies the checksum of each row, so the query does
 * not.
 */
export function selectForUpdate(text: string, values: readonly SqlValue[]): Statement {
  return { text, values, unchecked: true };
}

/**
 * A condition on columns that may not be in the index that finds the rows of `table` (its name or alias in the query).
 * SQLite also verifies the checksum of each row that fails the condition, because a changed byte could otherwise hide
 * the row. The comment is replaced in sqlite/connection/row-checksums.ts.
 */
export function checkedCondition(table: string, condition: string): string {
  return `(${condition} /* or damaged ${table} */)`;
}

/** A refusal or a failure as plain data, which can cross a thread. The store turns it into a BackplaneError. */
export interface StoreFailure {
  code: string;
  message: string | undefined;
  details?: Record<string, unknown>;
  /** The error of the operating system, if the disk of the store is full or fails. */
  disk?: "ENOSPC" | "EIO";
}

class RefusedError extends Error {
  readonly failure: StoreFailure;
  constructor(failure: StoreFailure) {
    super(failure.message);
    this.name = "RefusedError";
    this.failure = failure;
  }
}

export function refuse(code: string, message: string, details?: Record<string, unknown>): never {
  throw new RefusedError(details === undefined ? { code, message } : { code, message, details });
}

export function failureOf(error: unknown): StoreFailure | undefined {
  const failure = (error as { failure?: StoreFailure } | null)?.failure;
  return typeof failure?.code === "string" ? failure : undefined;
}

/** Expands a list that is passed as one JSON parameter, for use in `in (…)`. */
export function jsonTexts(dialect: SqlDialect, placeholder: string): string {
  return dialect === "sqlite"
    ? `select value from json_each(${placeholder})`
    : `select json_array_elements_text(${placeholder}::json)`;
}

/** A clause that locks rows; empty on SQLite, which has one writer. */
export function rowLock(dialect: SqlDialect, clause: string): string {
  return dialect === "sqlite" ? "" : clause;
}

/**
 * The current time. On PostgreSQL it is the server's clock, because the clocks of the nodes that share it differ; the
 * placeholder is then null. On SQLite it is the caller's time. The expression is stable within a statement, so
 * comparisons with it can use an index.
 */
export function nowSql(dialect: SqlDialect, placeholder: string): string {
  return dialect === "sqlite"
    ? `cast(${placeholder} as integer)`
    : `coalesce(cast(${placeholder} as bigint), (extract(epoch from statement_timestamp()) * 1000)::bigint)`;
}
