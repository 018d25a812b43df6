import * as store from "@backplane/store";
import { expect, test } from "vitest";

test("the room's public face", () => {
  expect(Object.keys(store).sort()).toEqual([
    "SCHEMA_VERSION",
    "createSecretVault",
    "lockHome",
    "openPostgresStore",
    "openSqliteStore",
  ]);
});
