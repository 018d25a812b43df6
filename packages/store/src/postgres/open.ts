import type { ArtifactFiles, Logger, Store } from "@backplane/kernel/ports";
import type pg from "pg";
import type { Backend } from "../backend.ts";
import { createListeners } from "../listeners.ts";
import { MIGRATIONS } from "../migrations/index.ts";
import type { Migration } from "../migrations/migration.ts";
import { type Op, type Row, type Statement, sql } from "../op.ts";
import { isSingleStatement, startWrite, type WriteInput } from "../ops/index.ts";
import { lastPosition } from "../ops/outbox.ts";
import { createStore } from "../stores/index.ts";
import { openPostgresArtifacts } from "./artifacts.ts";
import { BUSY_RETRIES, isConflict, toStoreError } from "./errors.ts";
import { inTransaction } from "./in-transaction.ts";
import { migrateDatabase } from "./migrate.ts";

export interface PostgresOptions {
  url: string;
  /** Default `public`. Created when it is missing. */
  schema?: string;
  pool_size?: number;
  log?: Logger;
  /** Migration tests only. */
  migrations?: readonly Migration[];
  /** Tests that play with time only: leases and jobs go by the caller's clock, not by the server's. */
  caller_clock?: boolean;
}

/** What calls hand over lies beside the rows, since the nodes share nothing else. */
export interface PostgresStore extends Store {
  artifacts: ArtifactFiles;
}

const INT8 = 20;
const WATCH_MS = 1_000;
const PROGRESS_DELAY_MS = 25;

export async function openPostgresStore(options: PostgresOptions): Promise<PostgresStore> {
  const { url, schema = "public", log } = options;
  // Loaded when it is needed: a gateway on SQLite does not pay for it.
  const { default: driver } = await import("pg");
  const pool = new driver.Pool({
    connectionString: url,
    max: options.pool_size ?? 10,
    connectionTimeoutMillis: 10_000,
    statement_timeout: 30_000,
    idle_in_transaction_session_timeout: 60_000,
    options: `-c search_path=${quoteIdentifier(schema)}`,
    // Counters and milliseconds fit 53 bits.
    types: {
      getTypeParser: (oid: number, format?: "text" | "binary") =>
        oid === INT8 ? Number : driver.types.getTypeParser(oid, format as "text"),
    },
  });
  // A connection may break while it is idle and while it works; in the second case its query rejects too.
  const broke = (error: Error) => log?.warn({ err: error }, "a database connection broke");
  pool.on("error", broke);
  pool.on("connect", (client) => client.on("error", broke));
  try {
    await migrateDatabase(pool, schema, options.migrations ?? MIGRATIONS);
  } catch (error) {
    await pool.end();
    throw toStoreError(error);
  }
  const store = createStore(createBackend(pool, log, options.caller_clock ?? false));
  return { ...store, artifacts: openPostgresArtifacts(pool) };
}

function createBackend(pool: pg.Pool, log: Logger | undefined, caller_clock: boolean): Backend {
  const listeners = createListeners();
  const names = createStatementNames();
  let progress: WriteInput<"appendProgress"> = [];
  let flushing: Promise<void> = Promise.resolve();
  let timer: NodeJS.Timeout | null = null;
  let watch: NodeJS.Timeout | null = null;
  let last_seen = -1;

  const ask = async (on: pg.Pool | pg.PoolClient, { text, values }: Statement): Promise<Row[]> =>
    (await on.query<Row>({ name: names(text), text, values: values as unknown[] })).rows;

  const drive = async <T>(on: pg.Pool | pg.PoolClient, op: Op<T>): Promise<T> => {
    let step = op.next();
    while (!step.done) step = op.next(await ask(on, step.value));
    return step.value;
  };

  /** One operation, one transaction. A lost race against another writer runs it again from the start. */
  const transact = async <T>(start: () => Op<T>, single: boolean): Promise<T> => {
    for (let attempt = 1; ; attempt++) {
      try {
        return single
          ? await drive(pool, start())
          : await inTransaction(pool, (client) => drive(client, start()));
      } catch (error) {
        if (!isConflict(error) || attempt >= BUSY_RETRIES) throw toStoreError(error);
      }
    }
  };

  const flushProgress = (): Promise<void> => {
    if (timer !== null) clearTimeout(timer);
    timer = null;
    const rows = progress;
    progress = [];
    if (rows.length > 0) {
      flushing = flushing.then(() =>
        transact(() => startWrite("appendProgress", rows, "postgres"), true).then(
          () => {},
          (error: Error) => log?.warn({ err: error, rows: rows.length }, "progress events were lost"),
        ),
      );
    }
    return flushing;
  };

  /** Another gateway's events make no noise here, so listeners also hear of what is simply there. */
  const lookForEvents = async (): Promise<void> => {
    const position = await drive(pool, lastPosition()).catch(() => last_seen);
    if (last_seen >= 0 && position > last_seen) listeners.call();
    last_seen = position;
  };

  return {
    dialect: "postgres",
    at: (now) => (caller_clock ? now : null),
    async write(name, input) {
      // A reader of a settled invocation finds its progress complete.
      if (name === "settleInvocation" || name === "settleWithTape") await flushProgress();
      return (await transact(
        () => startWrite(name, input, "postgres"),
        isSingleStatement(name, input),
      )) as never;
    },
    later(rows) {
      progress.push(...rows);
      timer ??= setTimeout(() => void flushProgress(), PROGRESS_DELAY_MS);
    },
    read: (op) => drive(pool, op("postgres")).catch((error) => Promise.reject(toStoreError(error))),
    readUnchecked: (op) => drive(pool, op("postgres")).catch((error) => Promise.reject(toStoreError(error))),
    readHot: (_, op) => drive(pool, op("postgres")).catch((error) => Promise.reject(toStoreError(error))),
    onAppended(listener) {
      watch ??= setInterval(() => void lookForEvents(), WATCH_MS).unref();
      return listeners.add(listener);
    },
    appended: () => listeners.call(),
    async ping() {
      await ask(pool, sql("select version from schema_version limit 1")).catch((error) =>
        Promise.reject(toStoreError(error)),
      );
    },
    async close() {
      if (watch !== null) clearInterval(watch);
      await flushProgress();
      await pool.end();
    },
  };
}

/** A short name per text, so that each connection parses and plans it once. */
function createStatementNames(): (text: string) => string {
  const names = new Map<string, string>();
  return (text) => {
    const known = names.get(text);
    if (known !== undefined) return known;
    const name = `s${names.size}`;
    names.set(text, name);
    return name;
  };
}

function quoteIdentifier(name: string): string {
  return `"${name.replaceAll('"', '""')}"`;
}
