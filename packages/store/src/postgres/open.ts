import type { ArtifactFiles, Logger, SharedPackages, Store } from "@backplane/ports";
import type pg from "pg";
import type { Backend } from "../backend/backend.ts";
import { createListeners } from "../backend/listeners.ts";
import { MIGRATIONS } from "../migrations/all-migrations.ts";
import type { Migration } from "../migrations/migration.ts";
import { type Op, type Row, type Statement, sql } from "../ops/op.ts";
import { readLastPosition } from "../ops/outbox.ts";
import { isSingleStatement, startWrite, type WriteInput, type WriteName } from "../ops/writes.ts";
import { createStore } from "../stores/create-store.ts";
import { openPostgresArtifacts } from "./artifacts.ts";
import { isConflict, MAX_ATTEMPTS, toPostgresError } from "./errors.ts";
import { explainConnection } from "./explain-connection.ts";
import { migrateDatabase } from "./migrate.ts";
import { openPostgresPackages } from "./shared-packages.ts";
import { insertOnce, inTransaction } from "./transactions.ts";

export interface PostgresOptions {
  url: string;
  /** Default `public`. Created if missing. */
  schema?: string;
  pool_size?: number;
  /**
   * The duration of a gateway's lease. The database aborts a transaction that a frozen gateway left open for this long,
   * or for a minute if the lease is longer.
   */
  lease_ms?: number;
  log?: Logger;
  /** For migration tests. */
  migrations?: readonly Migration[];
  /** For tests that control the time: leases and jobs use the caller's clock instead of the server's. */
  caller_clock?: boolean;
}

/** A store that also contains artifacts and the files of packages, because the nodes share nothing but the database. */
export interface PostgresStore extends Store {
  artifacts: ArtifactFiles;
  shared_packages: SharedPackages;
}

const INT8 = 20;
const POLL_MS = 1_000;
const PROGRESS_DELAY_MS = 25;
const IDLE_MS = 60_000;

export async function openPostgresStore(options: PostgresOptions): Promise<PostgresStore> {
  const { url, schema = "public", log } = options;
  // Loaded on demand: a gateway on SQLite does not need it.
  const { default: driver } = await import("pg");
  const connection = {
    connectionString: url,
    connectionTimeoutMillis: 10_000,
    statement_timeout: 30_000,
    // Without it, a query on a connection that the network dropped silently would never settle.
    query_timeout: 40_000,
    keepAlive: true,
    idle_in_transaction_session_timeout: Math.min(options.lease_ms ?? IDLE_MS, IDLE_MS),
    options: `-c search_path=${quoteIdentifier(schema)}`,
    // Counters and milliseconds fit 53 bits.
    types: {
      getTypeParser: (oid: number, format?: "text" | "binary") =>
        oid === INT8 ? Number : driver.types.getTypeParser(oid, format as "text"),
    },
  };
  const pool = new driver.Pool({ ...connection, max: options.pool_size ?? 10 });
  // Leases have their own pool: neither a burst of work nor hanging queries may cost the gateway its lease.
  const leases = new driver.Pool({
    ...connection,
    max: 1,
    query_timeout: 5_000,
    connectionTimeoutMillis: 5_000,
  });
  // A connection may break while idle or during a query; in the second case the query rejects too.
  const logBroken = (error: Error) => log?.warn({ err: error }, "a database connection broke");
  for (const each of [pool, leases]) {
    each.on("error", logBroken);
    each.on("connect", (client) => client.on("error", logBroken));
  }
  try {
    await migrateDatabase(pool, schema, options.migrations ?? MIGRATIONS);
  } catch (error) {
    await Promise.all([pool.end(), leases.end()]);
    throw explainConnection(error, url) ?? toPostgresError(error);
  }
  const store = createStore(createBackend({ pool, leases }, log, options.caller_clock ?? false));
  return { ...store, artifacts: openPostgresArtifacts(pool), shared_packages: openPostgresPackages(pool) };
}

interface Pools {
  pool: pg.Pool;
  leases: pg.Pool;
}

/** Writes that end an invocation, whose progress must be complete by then. */
const SETTLING_WRITES: ReadonlySet<WriteName> = new Set<WriteName>([
  "settleInvocation",
  "settleWithTape",
  "settleHarness",
]);

const LEASE_WRITES: ReadonlySet<WriteName> = new Set<WriteName>([
  "acquireLease",
  "renewLeases",
  "releaseLease",
]);

function createBackend({ pool, leases }: Pools, log: Logger | undefined, caller_clock: boolean): Backend {
  const listeners = createListeners();
  const nameStatement = createStatementNames();
  let progress: WriteInput<"appendProgress"> = [];
  let flushing: Promise<void> = Promise.resolve();
  let timer: NodeJS.Timeout | null = null;
  let polling: NodeJS.Timeout | null = null;
  let last_seen = -1;

  const query = async (executor: pg.Pool | pg.PoolClient, { text, values }: Statement): Promise<Row[]> =>
    (await executor.query<Row>({ name: nameStatement(text), text, values: values as unknown[] })).rows;

  const runOp = async <T>(executor: pg.Pool | pg.PoolClient, op: Op<T>): Promise<T> => {
    let step = op.next();
    while (!step.done) step = op.next(await query(executor, step.value));
    return step.value;
  };

  /**
   * Runs an operation in one transaction, or without one if it is a single statement. After a conflict with another
   * writer it runs again from the start.
   */
  const transact = async <T>(start: () => Op<T>, single: boolean, executor = pool): Promise<T> => {
    for (let attempt = 1; ; attempt++) {
      try {
        return single
          ? await runOp(executor, start())
          : await inTransaction(executor, (client) => runOp(client, start()));
      } catch (error) {
        if (!isConflict(error) || attempt >= MAX_ATTEMPTS) throw toPostgresError(error);
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

  /** Events of other gateways do not notify this process, so it polls for them. */
  const pollEvents = async (): Promise<void> => {
    const position = await runOp(pool, readLastPosition()).catch(() => last_seen);
    if (last_seen >= 0 && position > last_seen) listeners.notify();
    last_seen = position;
  };

  return {
    dialect: "postgres",
    selectTime: (now) => (caller_clock ? now : null),
    async write(name, input) {
      if (SETTLING_WRITES.has(name)) await flushProgress();
      const start = () => startWrite(name, input, "postgres");
      const single = isSingleStatement(name, input);
      if (single && name === "openInvocation") {
        return (await insertOnce(pool, (client) => runOp(client, start()), null).catch((error: unknown) =>
          Promise.reject(toPostgresError(error)),
        )) as never;
      }
      return (await transact(start, single, LEASE_WRITES.has(name) ? leases : pool)) as never;
    },
    bufferProgress(rows) {
      progress.push(...rows);
      timer ??= setTimeout(() => void flushProgress(), PROGRESS_DELAY_MS);
    },
    read: (op) => runOp(pool, op("postgres")).catch((error) => Promise.reject(toPostgresError(error))),
    readUnchecked: (op) =>
      runOp(pool, op("postgres")).catch((error) => Promise.reject(toPostgresError(error))),
    readCached: (_, op) =>
      runOp(pool, op("postgres")).catch((error) => Promise.reject(toPostgresError(error))),
    onAppended(listener) {
      polling ??= setInterval(() => void pollEvents(), POLL_MS).unref();
      return listeners.add(listener);
    },
    notifyAppended: () => listeners.notify(),
    async ping() {
      await query(pool, sql("select version from schema_version limit 1")).catch((error) =>
        Promise.reject(toPostgresError(error)),
      );
    },
    async close() {
      if (polling !== null) clearInterval(polling);
      await flushProgress();
      await Promise.all([pool.end(), leases.end()]);
    },
  };
}

/** A short name per statement text, so that each connection parses and plans it once. */
function createStatementNames(): (text: string) => string {
  const names = new Map<string, string>();
  return (text) => {
    const existing = names.get(text);
    if (existing !== undefined) return existing;
    const name = `s${names.size}`;
    names.set(text, name);
    return name;
  };
}

function quoteIdentifier(name: string): string {
  return `"${name.replaceAll('"', '""')}"`;
}
