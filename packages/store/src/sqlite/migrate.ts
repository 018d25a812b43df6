/**
 * Migrates a file to the newest schema, one transaction per step: after a crash each step is either complete or not
 * begun. A file with data of an older schema is first backed up in the same folder. A new file gets all steps in one
 * transaction, which waits for the disk once instead of once per step (benchmark boot.ready).
 */
import { existsSync, renameSync, rmSync } from "node:fs";
import { dirname } from "node:path";
import { DatabaseSync } from "node:sqlite";
import type { Logger } from "@backplane/ports";
import { rowSums } from "../migrations/0014-row-sums.ts";
import { expandStatements, type Migration } from "../migrations/migration.ts";
import {
  CREATE_SCHEMA_VERSION,
  pendingMigrations,
  READ_SCHEMA_VERSION,
  WRITE_SCHEMA_VERSION,
} from "../migrations/schema-version.ts";
import { type Op, type Statement, sql } from "../ops/op.ts";
import { readState, writeState } from "./connection/commit-counter.ts";
import type { SqliteConnection } from "./connection/connection.ts";
import { rewriteChecksums, schemaChecksum } from "./connection/row-checksums.ts";
import { syncPath } from "./connection/sync-path.ts";

/** The schema version of a file, even while a gateway has it open; 0 if nothing has been stored yet. */
export function readStoreSchemaVersion(file: string): number {
  if (!existsSync(file)) return 0;
  const database = new DatabaseSync(file, { readOnly: true });
  try {
    const used = database.prepare("select 1 from sqlite_master where name = 'schema_version'").get();
    return used === undefined ? 0 : (database.prepare(READ_SCHEMA_VERSION).get()!.version as number);
  } finally {
    database.close();
  }
}

export function migrateFile(
  connection: SqliteConnection,
  file: string,
  migrations: readonly Migration[],
  log: Logger | undefined,
): void {
  connection.exec(CREATE_SCHEMA_VERSION);
  const version = runStatement(connection, sql(READ_SCHEMA_VERSION))[0]!.version as number;
  const steps = pendingMigrations(version, migrations);
  if (steps.length > 0 && version > 0) {
    const backup = backUp(connection, file, version);
    log?.info({ backup }, "the store was backed up before its schema was changed");
  }
  if (version === 0) apply(connection, steps);
  else for (const step of steps) apply(connection, [step]);
}

function apply(connection: SqliteConnection, steps: readonly Migration[]): void {
  connection.exec("begin immediate");
  try {
    const change = () => {
      for (const step of steps) {
        for (const statement of expandStatements(step, "sqlite")) connection.exec(statement);
        runStatement(
          connection,
          sql(WRITE_SCHEMA_VERSION, [step.version, step.name, new Date().toISOString()]),
        );
      }
    };
    if (steps.every(({ version }) => version < rowSums.version)) change();
    else {
      rewriteChecksums(connection.database, change);
      const state = readState(connection);
      if (state !== null)
        runStatement(connection, writeState({ ...state, schema_sum: schemaChecksum(connection.database) }));
    }
    connection.exec("commit");
  } catch (error) {
    if (connection.inTransaction()) connection.exec("rollback");
    throw error;
  }
}

/** The backup is complete under its final name or does not exist. */
function backUp(connection: SqliteConnection, file: string, version: number): string {
  const backup = `${file}.schema-${version}.backup`;
  const partial = `${backup}.partial`;
  if (existsSync(partial)) rmSync(partial);
  connection.exec(`vacuum into '${partial.replaceAll("'", "''")}'`);
  syncPath(partial);
  renameSync(partial, backup);
  syncPath(dirname(backup));
  return backup;
}

function runStatement(connection: SqliteConnection, statement: Statement) {
  return connection.run(
    (function* (): Op<Record<string, unknown>[]> {
      return yield statement;
    })(),
  );
}
