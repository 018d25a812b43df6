import * as store from "@backplane/store";
import { expect, test } from "vitest";

test("exports only the public names of the module", () => {
  expect(Object.keys(store).sort()).toEqual([
    "LOCK_FILE",
    "SCHEMA_VERSION",
    "backUpStoreFile",
    "checkStoreFile",
    "createSecretVault",
    "dumpDatabase",
    "lockHome",
    "openPostgresStore",
    "openSqliteStore",
    "readDatabaseSummary",
    "readStoreSchemaVersion",
    "readStoreSize",
    "repairStoreFile",
    "restoreDatabase",
    "restoreStoreFile",
    "sqliteDiskFault",
  ]);
});
