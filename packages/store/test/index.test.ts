import * as store from "@backplane/store";
import { expect, test } from "vitest";

test("exports what opens, checks and repairs a store, and nothing else", () => {
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
