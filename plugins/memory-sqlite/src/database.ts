/**
 * The database file. Entries of all scopes share one table; each scope has its own full-text index, so that
 * neither the words nor the word counts of one tenant affect another's search. Entry and index change in one
 * transaction.
 */
import { chmodSync, closeSync, openSync } from "node:fs";
import { DatabaseSync, type SQLInputValue, type StatementSync } from "node:sqlite";

export type NoteRow = Record<string, unknown>;

export interface Database {
  /** False if this SQLite has no FTS5; searches then read every entry. */
  readonly full_text: boolean;
  /** Runs one statement and returns its rows. */
  readonly execute: (text: string, ...values: SQLInputValue[]) => NoteRow[];
  /** Everything is on disk when this returns, or nothing is. */
  readonly transaction: <T>(run: () => T) => T;
  close(): void;
}

export interface DatabaseOptions {
  file: string;
  /** Defaults to whether this SQLite supports FTS5. */
  full_text?: boolean;
}

const VERSION = 2;

/** `text` is the last column, so that a statement that needs only the other columns reads no long text. */
const SCHEMA = `
  create table scope (
    id integer primary key,
    org_id text not null,
    project_id text not null,
    entries integer not null default 0,
    indexed integer not null default 0,
    unique (org_id, project_id)
  ) strict;
  create table entry (
    n integer primary key,
    scope_id integer not null references scope (id),
    at integer not null,
    id text not null,
    digest blob not null,
    meta text,
    text text not null,
    unique (scope_id, id),
    unique (scope_id, digest)
  ) strict;
  create index entry_by_age on entry (scope_id, at, n);
`;

/** At most one vector per entry, of the space in which the entry was embedded last. */
const VECTORS = `
  create table vector (
    n integer primary key references entry (n) on delete cascade,
    scope_id integer not null,
    space text not null,
    data blob not null
  ) strict;
  create index vector_by_space on vector (scope_id, space, n);
`;

const PRAGMAS = `
  pragma busy_timeout = 5000;
  pragma journal_mode = wal;
  pragma synchronous = full;
  pragma foreign_keys = on;
  pragma journal_size_limit = 16777216;
`;

/** Some statements name the index of a scope, so a gateway with many scopes must not cache them without limit. */
const MAX_STATEMENTS = 256;

export function openDatabase({ file, full_text }: DatabaseOptions): Database {
  // The file is created here and not by SQLite, so that it is never readable by others; SQLite copies the mode to its
  // other files.
  closeSync(openSync(file, "a", 0o600));
  chmodSync(file, 0o600);
  const sqlite = new DatabaseSync(file);
  const statements = new Map<string, StatementSync>();

  const execute = (text: string, ...values: SQLInputValue[]): NoteRow[] => {
    let statement = statements.get(text);
    if (statement === undefined) {
      if (statements.size >= MAX_STATEMENTS) statements.clear();
      statement = sqlite.prepare(text);
      statements.set(text, statement);
    }
    return statement.all(...values) as NoteRow[];
  };
  const transaction = <T>(run: () => T): T => {
    sqlite.exec("begin immediate");
    try {
      const value = run();
      sqlite.exec("commit");
      return value;
    } catch (error) {
      if (sqlite.isTransaction) sqlite.exec("rollback");
      throw error;
    }
  };

  try {
    sqlite.exec(PRAGMAS);
    transaction(() => migrate(sqlite, execute));
    const modules = execute("select 1 from pragma_module_list where name = 'fts5'");
    return { full_text: full_text ?? modules.length > 0, execute, transaction, close: () => sqlite.close() };
  } catch (error) {
    sqlite.close();
    throw error;
  }
}

/**
 * Runs inside a transaction: if two processes open a new file, one creates the tables and the other finds
 * them.
 */
function migrate(sqlite: DatabaseSync, execute: Database["execute"]): void {
  const version = Number(execute("pragma user_version")[0]?.user_version);
  if (version > VERSION) {
    throw new Error(
      `memory.db was written by a newer release: it has format ${version}, and this release reads ${VERSION}. Update Backplane.`,
    );
  }
  if (version === 0) sqlite.exec(SCHEMA);
  if (version < 2) sqlite.exec(VECTORS);
  if (version < VERSION) sqlite.exec(`pragma user_version = ${VERSION}`);
}
