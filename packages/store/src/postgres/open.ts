import type { ArtifactFiles, Logger, Store } from "@backplane/ports";
import type pg from "pg";
import type { Backend } from "../backend/backend.ts";
import { createListeners } from "../backend/listeners.ts";
import { MIGRATIONS } from "../migrations/all-migrations.ts";
import type { Migration } from "../migrations/migration.ts";
import { type Op, type Row, type Statement, sql } from "../ops/op.ts";
import { lastPosition } from "../ops/outbox.ts";
import { isSingleStatement, startWrite, type WriteInput, type WriteName } from "../ops/writes.ts";
import { createStore } from "../stores/create-store.ts";
import { openPostgresArtifacts } from "./artifacts.ts";
import { BUSY_RETRIES, isConflict, toPostgresError } from "./errors.ts";
import { migrateDatabase } from "./migrate.ts";
import { insertOnce, inTransaction } from "./transactions.ts";

export interface PostgresOptions {
  url: string;
  /** Default `public`. Created when it is missing. */
  schema?: string;
  pool_size?: number;
  /** How long the lease of a gateway is: the database ends a transaction that a frozen one left open after this. */
  lease_ms?: number;
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
const IDLE_MS = 60_000;

export async function openPostgresStore(options: PostgresOptions): Promise<PostgresStore> {
  const { url, schema = "public", log } = options;
  // Loaded when it is needed: a gateway on SQLite does not pay for it.
  const { default: driver } = await import("pg");
  const connection = {
    connectionString: url,
    connectionTimeoutMillis: 10_000,
    statement_timeout: 30_000,
    // A connection that the network dropped silently never answers.
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
  // Of their own: a burst of work, or queries that hang, must not cost the gateway its lease.
  const leases = new driver.Pool({
    ...connection,
    max: 1,
    query_timeout: 5_000,
    connectionTimeoutMillis: 5_000,
  });
  // A connection may break while it is idle and while it works; in the second case its query rejects too.
  const broke = (error: Error) => log?.warn({ err: error }, "a database connection broke");
  for (const one of [pool, leases]) {
    one.on("error", broke);
    one.on("connect", (client) => client.on("error", broke));
  }
  try {
    await migrateDatabase(pool, schema, options.migrations ?? MIGRATIONS);
  } catch (error) {
    await Promise.all([pool.end(), leases.end()]);
    throw toPostgresError(error);
  }
  const store = createStore(createBackend({ pool, leases }, log, options.caller_clock ?? false));
  return { ...store, artifacts: openPostgresArtifacts(pool) };
}

interface Pools {
  pool: pg.Pool;
  leases: pg.Pool;
}

const LEASE_WRITES: ReadonlySet<WriteName> = new Set<WriteName>([
  "acquireLease",
  "renewLeases",
  "releaseLease",
]);

function createBackend({ pool, leases }: Pools, log: Logger | undefined, caller_clock: boolean): Backend {
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
  const transact = async <T>(start: () => Op<T>, single: boolean, on = pool): Promise<T> => {
    for (let attempt = 1; ; attempt++) {
      try {
        return single
          ? await drive(on, start())
          : await inTransaction(on, (client) => drive(client, start()));
      } catch (error) {
        if (!isConflict(error) || attempt >= BUSY_RETRIES) throw toPostgresError(error);
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
      const start = () => startWrite(name, input, "postgres");
      const single = isSingleStatement(name, input);
      if (single && name === "openInvocation") {
        return (await insertOnce(pool, (client) => drive(client, start()), null).catch((error: unknown) =>
          Promise.reject(toPostgresError(error)),
        )) as never;
      }
      return (await transact(start, single, LEASE_WRITES.has(name) ? leases : pool)) as never;
    },
    later(rows) {
      progress.push(...rows);
      timer ??= setTimeout(() => void flushProgress(), PROGRESS_DELAY_MS);
    },
    read: (op) => drive(pool, op("postgres")).catch((error) => Promise.reject(toPostgresError(error))),
    readUnchecked: (op) =>
      drive(pool, op("postgres")).catch((error) => Promise.reject(toPostgresError(error))),
    readHot: (_, op) => drive(pool, op("postgres")).catch((error) => Promise.reject(toPostgresError(error))),
    onAppended(listener) {
      watch ??= setInterval(() => void lookForEvents(), WATCH_MS).unref();
      return listeners.add(listener);
    },
    appended: () => listeners.call(),
    async ping() {
      await ask(pool, sql("select version from schema_version limit 1")).catch((error) =>
        Promise.reject(toPostgresError(error)),
      );
    },
    async close() {
      if (watch !== null) clearInterval(watch);
      await flushProgress();
      await Promise.all([pool.end(), leases.end()]);
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
