import type { BackplaneError } from "@backplane/contract";
import type { Logger, Store } from "@backplane/ports";
import type { Backend } from "../backend/backend.ts";
import { createListeners } from "../backend/listeners.ts";
import { MIGRATIONS } from "../migrations/all-migrations.ts";
import type { Migration } from "../migrations/migration.ts";
import { failureOf, type Op, sql } from "../ops/op.ts";
import { createStore } from "../stores/create-store.ts";
import { createCommitCounter } from "./connection/commit-counter.ts";
import {
  type HookModule,
  loadHook,
  openConnection,
  type SqliteConnection,
  type StatementHook,
} from "./connection/connection.ts";
import { damageOf } from "./connection/driver-errors.ts";
import { toSqliteError } from "./connection/sqlite-error.ts";
import { checkCommits, checkDatabaseContent, checkInThread, planCheck } from "./damage/check-at-open.ts";
import { type CheckPart, checkHeader } from "./damage/check-file.ts";
import { damagedStoreError } from "./damage/restore-advice.ts";
import { migrateFile } from "./migrate.ts";
import { createReadCache } from "./read-cache.ts";
import { createGroupCommit } from "./writer/group-commit.ts";
import { createThreadWriter } from "./writer/thread-writer.ts";
import { createLocalWriter, type Writer } from "./writer/writer.ts";

export interface SqliteOptions {
  file: string;
  /** The writer has its own thread (default), so that no fsync blocks the event loop. */
  threaded?: boolean;
  log?: Logger;
  /** For fault tests. */
  onStatement?: HookModule;
  /** Limits for checking a part before the store is used, see check-at-open.ts. For tests. */
  check_first_bytes?: Partial<Record<CheckPart, number>>;
  /** For migration tests. */
  migrations?: readonly Migration[];
}

/** The caller has locked the home (lockHome), so that only one process writes to the file. */
export async function openSqliteStore(options: SqliteOptions): Promise<Store> {
  const { file, onStatement, log } = options;
  const { first, later } = planCheck(file, options.check_first_bytes);
  const { write_connection, reader } = openFile(options, await loadHook(onStatement), log, first);
  let damaged: BackplaneError | null = null;
  const check =
    later.length === 0
      ? null
      : checkInThread(file, later, log, (error) => {
          damaged = error;
        });
  let writer: Writer;
  if (options.threaded === false)
    writer = createLocalWriter(write_connection, createCommitCounter(write_connection, file));
  else {
    writer = createThreadWriter(file, onStatement, log);
    write_connection.close();
  }
  const group = createGroupCommit(writer, (rows, reason) =>
    log?.warn({ rows, reason: reason.message }, "progress events were lost"),
  );
  const cache = createReadCache();
  const listeners = createListeners();

  const read = <T>(op: Op<T>, checked = true): T => {
    try {
      return checked ? reader.run(op) : reader.runUnchecked(op);
    } catch (error) {
      throw toSqliteError(error);
    }
  };
  const backend: Backend = {
    dialect: "sqlite",
    selectTime: (now) => now,
    write: (name, input) => cache.duringWrite(name, () => group.write(name, input) as Promise<never>),
    bufferProgress: (rows) => group.bufferProgress(rows),
    read: async (op) => read(op("sqlite")),
    readUnchecked: async (op) => read(op("sqlite"), false),
    readCached: (key, op) => cache.get(key, () => read(op("sqlite"))),
    onAppended: (listener) => listeners.add(listener),
    notifyAppended: () => listeners.notify(),
    async ping() {
      if (damaged !== null) throw damaged;
      await backend.read(function* (): Op<void> {
        yield sql("select version from schema_version limit 1");
      });
      await backend.write("appendProgress", []);
    },
    async close() {
      await group.drain();
      await check?.stop();
      // The writer is closed last, because closing it checkpoints the log.
      reader.close();
      await writer.close();
    },
  };
  return createStore(backend);
}

/** The reader is opened while the log exists, because a read-only connection cannot create it. */
function openFile(
  options: SqliteOptions,
  hook: StatementHook | undefined,
  log: Logger | undefined,
  check_first: readonly CheckPart[],
) {
  const { file } = options;
  let write_connection: SqliteConnection | undefined;
  try {
    checkHeader(file);
    write_connection = openConnection(file, "write", hook);
    checkCommits(write_connection, file, log);
    checkDatabaseContent(write_connection, file, check_first, log);
    migrateFile(write_connection, file, options.migrations ?? MIGRATIONS, log);
    // A writer thread has its own connection, and this one is closed.
    if (options.threaded === false) write_connection.enableRowChecks();
    const reader = openConnection(file, "read");
    reader.enableRowChecks();
    return { write_connection, reader };
  } catch (error) {
    write_connection?.close();
    const damage = failureOf(error) === undefined ? damageOf(error) : undefined;
    throw damage === undefined ? toSqliteError(error) : damagedStoreError(file, `${file}: ${damage.message}`);
  }
}
