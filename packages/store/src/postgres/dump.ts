/**
 * Reads all rows of a gateway's database for a backup and writes them back. The rows come from one transaction, so they
 * are a consistent snapshot even while gateways write. They are JSON text from end to end: no value becomes a
 * JavaScript number.
 */
import { BackplaneError } from "@backplane/contract";
import type pg from "pg";
import { MIGRATIONS } from "../migrations/all-migrations.ts";
import { expandStatements } from "../migrations/migration.ts";
import {
  CREATE_SCHEMA_VERSION,
  pendingMigrations,
  READ_SCHEMA_VERSION,
} from "../migrations/schema-version.ts";
import { toPostgresError } from "./errors.ts";

export interface DatabaseDump {
  schema_version: number;
  /** In an order in which they can be written back. */
  tables: string[];
}

const SCHEMA_TABLE = "schema_version";
const CONNECT_MS = 10_000;
/** Kept small, because a row with a chunk of an artifact takes up to 512 KiB as text. */
const FETCHED_ROWS = 50;
const INSERT_CHARACTERS = 4 * 1024 * 1024;

export interface DumpOptions {
  /** Digests of packages whose files the backup contains anyway. */
  omitted_packages: readonly string[];
}

/** `write` receives each row as one line of JSON. */
export async function dumpDatabase(
  url: string,
  { omitted_packages }: DumpOptions,
  write: (table: string, row: string) => Promise<void>,
): Promise<DatabaseDump> {
  return await withClient(url, async (client) => {
    await client.query("begin isolation level repeatable read read only");
    const { rows } = await client.query<{ version: number }>(READ_SCHEMA_VERSION);
    const schema_version = rows[0]!.version;
    // Throws for a schema that this build does not support: its tables could be missing from the backup.
    pendingMigrations(schema_version, MIGRATIONS);
    const tables = [SCHEMA_TABLE, ...tablesOfSchema(schema_version)];
    const conditions = buildConditions(omitted_packages);
    for (const table of tables) {
      const condition = conditions[table] ?? "true";
      await client.query(
        `declare dump no scroll cursor for select to_jsonb(t)::text as row from ${table} t where ${condition}`,
      );
      for (;;) {
        const fetched = await client.query<{ row: string }>(`fetch ${FETCHED_ROWS} from dump`);
        for (const { row } of fetched.rows) await write(table, row);
        if (fetched.rows.length < FETCHED_ROWS) break;
      }
      await client.query("close dump");
    }
    await client.query("commit");
    return { schema_version, tables };
  });
}

/** For each table with the files of packages, the condition for the rows that a dump contains. */
function buildConditions(omitted_packages: readonly string[]): Record<string, string> {
  // A cursor has no parameters.
  const omitted = omitted_packages.filter((digest) => /^sha256:[0-9a-f]{64}$/.test(digest));
  const is_included = `digest <> all ('{${omitted.join(",")}}'::text[])`;
  const has_reference = `exists (select from shared_package_files r where r.sha256 = t.sha256 and r.${is_included})`;
  return {
    shared_packages: is_included,
    shared_package_files: is_included,
    shared_files: has_reference,
    shared_file_chunks: has_reference,
    // No gateway that holds a package continues after a restore.
    shared_package_holds: "false",
  };
}

export interface RestoreDatabaseOptions {
  /** Replaces a database that a gateway has used. */
  force: boolean;
  /** The lines of one table, as they were dumped. */
  rows(table: string): AsyncIterable<string>;
}

/**
 * Everything is written in one transaction, so a failure leaves the database as it was. Throws while a gateway is
 * running on the database and, without `force`, if the database already contains a store.
 */
export async function restoreDatabase(
  url: string,
  dump: DatabaseDump,
  options: RestoreDatabaseOptions,
): Promise<void> {
  pendingMigrations(dump.schema_version, MIGRATIONS);
  await withClient(url, async (client) => {
    await client.query("begin");
    await clearDatabase(client, options.force);
    await client.query(CREATE_SCHEMA_VERSION);
    for (const migration of MIGRATIONS.filter(({ version }) => version <= dump.schema_version))
      for (const statement of expandStatements(migration, "postgres")) await client.query(statement);
    for (const table of [SCHEMA_TABLE, ...tablesOfSchema(dump.schema_version)]) {
      // Some migrations insert a first row.
      await client.query(`delete from ${table}`);
      if (dump.tables.includes(table)) await insertRows(client, table, options.rows(table));
      await continueNumbering(client, table);
    }
    await client.query("commit");
  });
}

/** Drops the tables of an existing store. Throws if there is one and `force` is not set, or while a gateway uses it. */
async function clearDatabase(client: pg.Client, force: boolean): Promise<void> {
  const { rows } = await client.query<{ name: string }>(
    "select table_name as name from information_schema.tables where table_schema = current_schema()",
  );
  const existing_tables = new Set(rows.map(({ name }) => name));
  if (!existing_tables.has(SCHEMA_TABLE)) return;
  if (!force) {
    throw new BackplaneError("request.invalid", "The database already contains a Backplane store.", {
      fix: "Specify an empty database with store.url, or replace this store with --force.",
    });
  }
  if (existing_tables.has("leases")) {
    const live = await client.query<{ holder: string }>(
      "select holder from leases where expires_at > (extract(epoch from statement_timestamp()) * 1000)::bigint",
    );
    if (live.rows.length > 0) {
      throw new BackplaneError("home.locked", "A gateway is running on this database.", {
        fix: "Stop every gateway that uses it. The lease of one that was killed expires after node.lease_ms.",
      });
    }
  }
  const own_tables = [SCHEMA_TABLE, ...tablesOfSchema(Number.POSITIVE_INFINITY)].filter((table) =>
    existing_tables.has(table),
  );
  await client.query(`drop table ${own_tables.join(", ")} cascade`);
}

async function insertRows(client: pg.Client, table: string, rows: AsyncIterable<string>): Promise<void> {
  const text = `insert into ${table} overriding system value select * from jsonb_populate_recordset(null::${table}, $1::jsonb)`;
  let batch: string[] = [];
  let characters = 0;
  const flush = async () => {
    if (batch.length > 0) await client.query(text, [`[${batch.join(",")}]`]);
    batch = [];
    characters = 0;
  };
  for await (const row of rows) {
    batch.push(row);
    characters += row.length;
    if (characters >= INSERT_CHARACTERS) await flush();
  }
  await flush();
}

/** Rows that are inserted with explicit identity values do not advance the sequence of the identity column. */
async function continueNumbering(client: pg.Client, table: string): Promise<void> {
  const { rows } = await client.query<{ name: string }>(
    "select column_name as name from information_schema.columns where table_schema = current_schema() and table_name = $1 and is_identity = 'YES'",
    [table],
  );
  for (const { name } of rows) {
    await client.query(
      `select setval(pg_get_serial_sequence($1, $2), greatest((select max(${name}) from ${table}), 1), (select count(*) > 0 from ${table}))`,
      [table, name],
    );
  }
}

/** The tables of a schema in the order in which they were last created. */
function tablesOfSchema(version: number): string[] {
  const tables = new Set<string>();
  for (const migration of MIGRATIONS.filter((step) => step.version <= version)) {
    for (const statement of expandStatements(migration, "postgres")) {
      const [, action, name] = /^\s*(create|drop) table (?:if (?:not )?exists )?(\w+)/i.exec(statement) ?? [];
      if (name === undefined) continue;
      tables.delete(name);
      if (action!.toLowerCase() === "create") tables.add(name);
    }
  }
  return [...tables];
}

async function withClient<T>(url: string, work: (client: pg.Client) => Promise<T>): Promise<T> {
  const { default: driver } = await import("pg");
  const client = new driver.Client({ connectionString: url, connectionTimeoutMillis: CONNECT_MS });
  // A connection that breaks rejects its query too.
  client.on("error", () => {});
  try {
    await client.connect();
    return await work(client);
  } catch (error) {
    throw error instanceof BackplaneError ? error : toPostgresError(error);
  } finally {
    // Closing the connection rolls back an open transaction.
    await client.end().catch(() => {});
  }
}
