import * as store from "@backplane/store";
import { expect, test } from "vitest";

test("exports only the public names of the module", () => {
  expect(Object.keys(store).sort()).toEqual([
    "SCHEMA_VERSION",
    "backUpStoreFile",
    "checkStoreFile",
    "createSecretVault",
    "hasPageChecksums",
    "lockHome",
    "openPostgresStore",
    "openSqliteStore",
    "repairStoreFile",
    "restoreStoreFile",
    "storeBytes",
  ]);
});
