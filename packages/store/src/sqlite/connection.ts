/** One connection with its prepared statements, and the way an operation runs on it. */
import { DatabaseSync, type SQLInputValue, type StatementSync } from "node:sqlite";
import type { Op, Row, Statement } from "../op.ts";

/** Called before every statement that writes, and before `begin` and `commit`. For fault tests. */
export type StatementHook = (text: string) => void;

export interface Connection {
  run<T>(op: Op<T>): T;
  /** As `run`, but tells through `wrote` whether a statement had changed something when it threw. */
  runCounting<T>(op: Op<T>, wrote: { value: boolean }): T;
  exec(text: string): void;
  inTransaction(): boolean;
  close(): void;
}

interface Prepared {
  statement: StatementSync;
  answers: boolean;
  writes: boolean;
}

/** FULL: a commit is on the platter before it is acknowledged. Checkpoints of 16 MB cost less per row. */
const WRITER_PRAGMAS = `
  pragma busy_timeout = 5000;
  pragma journal_mode = wal;
  pragma synchronous = full;
  pragma foreign_keys = on;
  pragma wal_autocheckpoint = 4000;
  pragma journal_size_limit = 67108864;
`;

export function openConnection(file: string, mode: "write" | "read", hook?: StatementHook): Connection {
  const database = new DatabaseSync(file, { readOnly: mode === "read" });
  database.exec(mode === "write" ? WRITER_PRAGMAS : "pragma busy_timeout = 5000;");
  const statements = new Map<string, Prepared>();

  const prepare = (text: string): Prepared => {
    let prepared = statements.get(text);
    if (prepared === undefined) {
      const statement = database.prepare(text.replaceAll(/\$(\d+)/g, "?$1"));
      prepared = {
        statement,
        answers: statement.columns().length > 0,
        writes: !/^\s*select/i.test(text),
      };
      statements.set(text, prepared);
    }
    return prepared;
  };

  const execute = (request: Statement, wrote: { value: boolean } | null): Row[] => {
    const prepared = prepare(request.text);
    if (prepared.writes) hook?.(request.text);
    const values = request.values as SQLInputValue[];
    if (!prepared.answers) {
      const { changes } = prepared.statement.run(...values);
      if (wrote !== null) wrote.value = true;
      return changes === 0 ? NO_ROWS : CHANGED;
    }
    const rows = prepared.statement.all(...values) as Row[];
    if (wrote !== null && prepared.writes) wrote.value = true;
    return rows;
  };

  const drive = <T>(op: Op<T>, wrote: { value: boolean } | null): T => {
    let step = op.next();
    while (!step.done) step = op.next(execute(step.value, wrote));
    return step.value;
  };

  return {
    run: (op) => drive(op, null),
    runCounting: drive,
    exec(text) {
      hook?.(text);
      const step = STEPS.has(text) ? prepare(text) : null;
      if (step === null) database.exec(text);
      else step.statement.run();
    },
    inTransaction: () => database.isTransaction,
    close: () => database.close(),
  };
}

const NO_ROWS: Row[] = [];
const CHANGED: Row[] = [{}];
/** What every batch runs, so it is prepared once. */
const STEPS: ReadonlySet<string> = new Set(["begin immediate", "commit"]);
