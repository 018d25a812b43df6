/** Persistent storage on SQLite or PostgreSQL, behind the kernel's ports. */
export { SCHEMA_VERSION } from "./migrations/all-migrations.ts";
export type { Migration } from "./migrations/migration.ts";
export { type DatabaseSummary, readDatabaseSummary } from "./postgres/check-database.ts";
export {
  type DatabaseDump,
  type DumpOptions,
  dumpDatabase,
  type RestoreDatabaseOptions,
  restoreDatabase,
} from "./postgres/dump.ts";
export { openPostgresStore, type PostgresOptions, type PostgresStore } from "./postgres/open.ts";
export type { HookModule } from "./sqlite/connection/connection.ts";
export { sqliteDiskFault } from "./sqlite/connection/sqlite-error.ts";
export {
  backUpStoreFile,
  checkStoreFile,
  type RepairResult,
  readStoreSize,
  repairStoreFile,
  restoreStoreFile,
  type StoreReport,
} from "./sqlite/damage/maintenance.ts";
export { LOCK_FILE, lockHome } from "./sqlite/lock-home.ts";
export { readStoreSchemaVersion } from "./sqlite/migrate.ts";
export { openSqliteStore, type SqliteOptions } from "./sqlite/open.ts";
export { createSecretVault, type KeyFile, type VaultKey } from "./vault/secret-vault.ts";
