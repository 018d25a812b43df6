import { rmSync } from "node:fs";
import { join } from "node:path";
import { DatabaseSync } from "node:sqlite";
import { openSqliteStore } from "@backplane/store";
import { createMemoryFolder } from "@backplane/test-kit/memory-folder";
import { afterAll, beforeAll, describe } from "vitest";
import type { Subject } from "../support/subject.ts";
import { storeContract } from "./contract.ts";

describe.each([
  ["with the writer in a thread", true],
  ["with the writer on the main thread", false],
])("SQLite %s", (_, threaded) => {
  let dir: string;
  let subject: Subject;
  beforeAll(async () => {
    dir = createMemoryFolder("bp-store-");
    const file = join(dir, "store.db");
    const store = await openSqliteStore({ file, threaded });
    subject = {
      store,
      row_checks: true,
      async tamper(text) {
        const database = new DatabaseSync(file);
        database.exec(text);
        database.close();
      },
    };
  });
  afterAll(async () => {
    await subject.store.close();
    rmSync(dir, { recursive: true });
  });
  storeContract(() => subject);
});
