import { BackplaneError } from "@backplane/contract";
import type { Migration } from "./migration.ts";

export function newestVersion(migrations: readonly Migration[]): number {
  return migrations.at(-1)?.version ?? 0;
}

/**
 * The migrations that the database lacks. Throws `store.schema_newer`, because an older build must not change newer
 * data.
 */
export function pendingMigrations(current: number, migrations: readonly Migration[]): Migration[] {
  const newest = newestVersion(migrations);
  if (current > newest) {
    throw new BackplaneError(
      "store.schema_newer",
      `The store has schema ${current}; this build supports schemas up to ${newest}.`,
      { details: { found: current, newest } },
    );
  }
  return migrations.filter((migration) => migration.version > current);
}

export const CREATE_SCHEMA_VERSION =
  "create table if not exists schema_version (version integer primary key, name text not null, applied_at text not null)";
export const READ_SCHEMA_VERSION = "select coalesce(max(version), 0) as version from schema_version";
export const WRITE_SCHEMA_VERSION =
  "insert into schema_version (version, name, applied_at) values ($1, $2, $3)";
