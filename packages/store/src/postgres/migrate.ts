/** Migrates a schema to the newest version. An advisory lock serializes gateways that start at the same time. */
import type pg from "pg";
import { expandStatements, type Migration } from "../migrations/migration.ts";
import {
  CREATE_SCHEMA_VERSION,
  pendingMigrations,
  READ_SCHEMA_VERSION,
  WRITE_SCHEMA_VERSION,
} from "../migrations/schema-version.ts";

const MIGRATION_LOCK = 7_420_001;

export async function migrateDatabase(
  pool: pg.Pool,
  schema: string,
  migrations: readonly Migration[],
): Promise<void> {
  const client = await pool.connect();
  let failure: Error | undefined;
  try {
    await client.query("select pg_advisory_lock($1)", [MIGRATION_LOCK]);
    await client.query(`create schema if not exists "${schema.replaceAll('"', '""')}"`);
    await client.query(CREATE_SCHEMA_VERSION);
    const schema_version = await client.query<{ version: number }>(READ_SCHEMA_VERSION);
    for (const step of pendingMigrations(schema_version.rows[0]!.version, migrations))
      await apply(client, step);
    await client.query("select pg_advisory_unlock($1)", [MIGRATION_LOCK]);
  } catch (error) {
    // Closing the connection releases the lock.
    failure = error as Error;
    throw error;
  } finally {
    client.release(failure);
  }
}

async function apply(client: pg.PoolClient, step: Migration): Promise<void> {
  await client.query("begin");
  try {
    for (const statement of expandStatements(step, "postgres")) await client.query(statement);
    await client.query(WRITE_SCHEMA_VERSION, [step.version, step.name, new Date().toISOString()]);
    await client.query("commit");
  } catch (error) {
    await client.query("rollback");
    throw error;
  }
}
