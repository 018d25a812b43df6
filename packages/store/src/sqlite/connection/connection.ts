/** A connection with its prepared statements, which runs operations. */
import { DatabaseSync, type SQLInputValue, type StatementSync } from "node:sqlite";
import type { Op, Row, Statement } from "../../ops/op.ts";
import {
  type ChecksummedWrite,
  type ChecksummedWrites,
  createChecksummedWrites,
} from "./checksummed-writes.ts";
import { addChecksumFunctions, checksummedTables, rowChecks, withRowChecks } from "./row-checksums.ts";

/** Called before every writing statement and every transaction statement, such as `commit`. For fault tests. */
export type StatementHook = (text: string) => void;

/**
 * A module whose default export becomes the statement hook, called as `(text, data)`. It is given by its path and not
 * as a function, because the writer thread has to load it. For fault tests only.
 */
export interface HookModule {
  module: string;
  data?: unknown;
}

export async function loadHook(hook: HookModule | undefined): Promise<StatementHook | undefined> {
  if (hook === undefined) return undefined;
  const loaded = (await import(hook.module)) as { default: (text: string, data: unknown) => void };
  return (text) => loaded.default(text, hook.data);
}

export interface SqliteConnection {
  run<T>(op: Op<T>): T;
  /** Like `run`, and sets `wrote` once a writing statement ran, even if it changed no row or the operation throws. */
  runTracked<T>(op: Op<T>, wrote: { value: boolean }): T;
  /** Like `run`, but returns damaged rows too, for code that looks for damage itself. */
  runUnchecked<T>(op: Op<T>): T;
  /** From now on checks rows when they are read, and writes them with their checksum. Needs the newest schema. */
  enableRowChecks(): void;
  database: DatabaseSync;
  exec(text: string): void;
  inTransaction(): boolean;
  close(): void;
}

interface PreparedStatement {
  statement: StatementSync;
  returns_rows: boolean;
  writes: boolean;
  /** Set for a statement that writes a row with its checksum. */
  checksummed: ChecksummedWrite | undefined;
}

/**
 * With FULL a commit is on disk before it is acknowledged. Checkpoints of 16 MB cost less per row (benchmark
 * store.append).
 */
const WRITER_PRAGMAS = `
  pragma busy_timeout = 5000;
  pragma journal_mode = wal;
  pragma synchronous = full;
  pragma foreign_keys = on;
  pragma wal_autocheckpoint = 4000;
  pragma journal_size_limit = 67108864;
`;

export function openConnection(file: string, mode: "write" | "read", hook?: StatementHook): SqliteConnection {
  const database = new DatabaseSync(file, { readOnly: mode === "read" });
  database.exec(mode === "write" ? WRITER_PRAGMAS : "pragma busy_timeout = 5000;");
  addChecksumFunctions(database);
  const statements = new Map<string, PreparedStatement>();
  const unchecked = new Map<string, PreparedStatement>();
  let checks: ReadonlyMap<string, string> = new Map();
  let writes: ChecksummedWrites | undefined;

  const prepare = (text: string, checked = true): PreparedStatement => {
    const cache = checked ? statements : unchecked;
    let prepared = cache.get(text);
    if (prepared === undefined) {
      const checksummed = checked ? writes?.rewrite(text) : undefined;
      const full = checksummed?.text ?? (checked ? withRowChecks(text, checks) : text);
      const statement = database.prepare(full.replaceAll(/\$(\d+)/g, "?$1"));
      prepared = {
        statement,
        returns_rows: statement.columns().length > 0,
        writes: !/^\s*select/i.test(text),
        checksummed,
      };
      cache.set(text, prepared);
    }
    return prepared;
  };

  const execute = (request: Statement, wrote: { value: boolean } | null, checked: boolean): Row[] => {
    const prepared = prepare(request.text, checked && request.unchecked !== true);
    if (prepared.writes) hook?.(request.text);
    const values = (prepared.checksummed?.complete(request.values) ?? request.values) as SQLInputValue[];
    if (!prepared.returns_rows) {
      const { changes } = prepared.statement.run(...values);
      if (wrote !== null) wrote.value = true;
      return changes === 0 ? NO_ROWS : CHANGED;
    }
    const rows = prepared.statement.all(...values) as Row[];
    if (wrote !== null && prepared.writes) wrote.value = true;
    return rows;
  };

  const runOp = <T>(op: Op<T>, wrote: { value: boolean } | null, checked = true): T => {
    let step = op.next();
    while (!step.done) step = op.next(execute(step.value, wrote, checked));
    return step.value;
  };

  return {
    run: (op) => runOp(op, null),
    runTracked: (op, wrote) => runOp(op, wrote),
    runUnchecked: (op) => runOp(op, null, false),
    enableRowChecks() {
      const tables = checksummedTables(database);
      if (mode === "write") writes = createChecksummedWrites(database, tables);
      checks = rowChecks(tables);
      statements.clear();
    },
    database,
    exec(text) {
      hook?.(text);
      writes?.forgetPositions();
      const step = PREPARED_STEPS.has(text) ? prepare(text) : null;
      if (step === null) database.exec(text);
      else step.statement.run();
    },
    inTransaction: () => database.isTransaction,
    close: () => database.close(),
  };
}

const NO_ROWS: Row[] = [];
const CHANGED: Row[] = [{}];
/** Every batch runs these, so they are prepared once. */
const PREPARED_STEPS: ReadonlySet<string> = new Set(["begin immediate", "commit"]);
