import type { Logger, Store } from "@backplane/kernel/ports";
import type { Backend } from "../backend.ts";
import { rethrow } from "../errors.ts";
import { createListeners } from "../listeners.ts";
import { MIGRATIONS } from "../migrations/index.ts";
import type { Migration } from "../migrations/migration.ts";
import { type Op, sql } from "../op.ts";
import { createStore } from "../stores/index.ts";
import { type Connection, openConnection, type StatementHook } from "./connection.ts";
import { createFreshCache } from "./fresh-cache.ts";
import { createGroupCommit } from "./group-commit.ts";
import { type HookModule, loadHook } from "./hook.ts";
import { migrateFile } from "./migrate.ts";
import { createThreadWriter } from "./thread-writer.ts";
import { createLocalWriter, type Writer } from "./writer.ts";

export interface SqliteOptions {
  file: string;
  /** The writer has its own thread (default), so that no fsync ever sits on the event loop. */
  threaded?: boolean;
  log?: Logger;
  /** Fault tests only. */
  onStatement?: HookModule;
  /** Migration tests only. */
  migrations?: readonly Migration[];
}

/** The caller holds the home's lock: one process per file, see lockHome. */
export async function openSqliteStore(options: SqliteOptions): Promise<Store> {
  const { file, onStatement, log } = options;
  const { owner, reader } = openFile(options, await loadHook(onStatement), log);
  let writer: Writer;
  if (options.threaded === false) writer = createLocalWriter(owner);
  else {
    writer = createThreadWriter(file, onStatement, log);
    owner.close();
  }
  const group = createGroupCommit(writer, (rows, why) =>
    log?.warn({ rows, reason: why.message }, "progress events were lost"),
  );
  const cache = createFreshCache();
  const listeners = createListeners();

  const read = <T>(op: Op<T>): T => {
    try {
      return reader.run(op);
    } catch (error) {
      throw rethrow(error);
    }
  };
  const backend: Backend = {
    dialect: "sqlite",
    at: (now) => now,
    write: (name, input) => cache.around(name, () => group.write(name, input) as Promise<never>),
    later: (rows) => group.later(rows),
    read: async (op) => read(op("sqlite")),
    readHot: (key, op) => cache.get(key, () => read(op("sqlite"))),
    onAppended: (listener) => listeners.add(listener),
    appended: () => listeners.call(),
    async ping() {
      await backend.read(function* (): Op<void> {
        yield sql("select version from schema_version limit 1");
      });
      await backend.write("appendProgress", []);
    },
    async close() {
      await group.drain();
      // The writer goes last: it folds the log back into the file.
      reader.close();
      await writer.close();
    },
  };
  return createStore(backend);
}

/** The reader opens while the log exists: a read-only connection cannot make one. */
function openFile(options: SqliteOptions, hook: StatementHook | undefined, log: Logger | undefined) {
  let owner: Connection | undefined;
  try {
    owner = openConnection(options.file, "write", hook);
    migrateFile(owner, options.file, options.migrations ?? MIGRATIONS, log);
    return { owner, reader: openConnection(options.file, "read") };
  } catch (error) {
    owner?.close();
    throw rethrow(error);
  }
}
