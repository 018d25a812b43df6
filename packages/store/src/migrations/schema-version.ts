import { BackplaneError } from "@backplane/contract";
import type { Migration } from "./migration.ts";

export function newestOf(migrations: readonly Migration[]): number {
  return migrations.at(-1)?.version ?? 0;
}

/** The steps that the database lacks. Throws `store.schema_newer`, because an older build must not change newer data. */
export function missingSteps(found: number, migrations: readonly Migration[]): Migration[] {
  const newest = newestOf(migrations);
  if (found > newest) {
    throw new BackplaneError(
      "store.schema_newer",
      `The store has schema ${found}; this build supports schemas up to ${newest}.`,
      { details: { found, newest } },
    );
  }
  return migrations.filter((migration) => migration.version > found);
}

export const CREATE_SCHEMA_VERSION =
  "create table if not exists schema_version (version integer primary key, name text not null, applied_at text not null)";
export const READ_SCHEMA_VERSION = "select coalesce(max(version), 0) as version from schema_version";
export const WRITE_SCHEMA_VERSION =
  "insert into schema_version (version, name, applied_at) values ($1, $2, $3)";
