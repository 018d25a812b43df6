/**
 * Every operation is written once, as a generator that yields statements and gets rows back. SQLite runs it
 * synchronously inside the writer's batch, PostgreSQL asynchronously inside a transaction. An operation holds
 * no state of its own, so an executor may run it again from the start.
 *
 * The writer's thread loads this folder and node:sqlite, nothing else: no import of another room here or in ops/.
 */
export type SqlValue = string | number | null;
export type Row = Record<string, SqlValue>;
export type Dialect = "sqlite" | "postgres";

export interface Statement {
  text: string;
  values: readonly SqlValue[];
}

/**
 * On SQLite a write without `returning` answers one empty row when it changed something, none when it did not:
 * `returning` costs a hot update a tenth of its time.
 */
export type Op<T> = Generator<Statement, T, Row[]>;

/** Placeholders are $1, $2 …; a statement is prepared once per text, so build texts from constants only. */
export function sql(text: string, values: readonly SqlValue[] = []): Statement {
  return { text, values };
}

/** A refusal as plain data: it crosses the thread, and the store makes a BackplaneError of it. */
export interface Failure {
  code: string;
  message: string | undefined;
  details?: Record<string, unknown>;
}

class Refused extends Error {
  readonly failure: Failure;
  constructor(failure: Failure) {
    super(failure.message);
    this.name = "Refused";
    this.failure = failure;
  }
}

export function refuse(code: string, message: string, details?: Record<string, unknown>): never {
  throw new Refused(details === undefined ? { code, message } : { code, message, details });
}

export function failureOf(error: unknown): Failure | undefined {
  const failure = (error as { failure?: Failure } | null)?.failure;
  return typeof failure?.code === "string" ? failure : undefined;
}

/** A list as one JSON parameter, usable in `in (…)`. */
export function eachText(dialect: Dialect, placeholder: string): string {
  return dialect === "sqlite"
    ? `select value from json_each(${placeholder})`
    : `select json_array_elements_text(${placeholder}::json)`;
}

/** Row locks: SQLite has one writer and needs none. */
export function locked(dialect: Dialect, clause: string): string {
  return dialect === "sqlite" ? "" : clause;
}

/**
 * This moment: on PostgreSQL the server's clock, since the clocks of the nodes that share it differ. A caller's own
 * time is passed where it is the only one there is (SQLite), and is null otherwise. Stable within a statement, so
 * that an index serves comparisons with it.
 */
export function nowAt(dialect: Dialect, placeholder: string): string {
  return dialect === "sqlite"
    ? `cast(${placeholder} as integer)`
    : `coalesce(cast(${placeholder} as bigint), (extract(epoch from statement_timestamp()) * 1000)::bigint)`;
}
