/** The test cases of a migration: a database of an earlier version, on SQLite and on PostgreSQL. */

import { rmSync } from "node:fs";
import { join } from "node:path";
import { DatabaseSync } from "node:sqlite";
import type { Store } from "@backplane/ports";
import { openPostgresStore, openSqliteStore } from "@backplane/store";
import { createMemoryFolder } from "@backplane/test-kit/memory-folder";
import pg from "pg";
import { test } from "vitest";
import { startPostgres } from "../../../../test/support/store/postgres.ts";
import { MIGRATIONS } from "../../src/migrations/all-migrations.ts";

/** The text contains `$1` for the first value, on both databases. */
export type Statement = readonly [text: string, values: readonly (string | number | null)[]];

export interface Upgrade<Seeded> {
  /** The first version that the old database does not have. */
  before: number;
  /** Writes the data that the current store can write to the old schema. */
  fill: (store: Store) => Promise<Seeded>;
  /** Statements for data that only the old version wrote. */
  oldStatements?: (engine: "sqlite" | "postgres") => Iterable<Statement>;
  check: (store: Store, seeded: Seeded) => Promise<void>;
  /** Whether the PostgreSQL store that is checked uses the caller's clock. */
  caller_clock?: boolean;
}

export function upgradeCases<Seeded>({
  before,
  fill,
  oldStatements,
  check,
  caller_clock = false,
}: Upgrade<Seeded>): void {
  const migrations = MIGRATIONS.filter(({ version }) => version < before);

  test("migrates a SQLite file of the earlier version", async () => {
    const dir = createMemoryFolder("bp-migrate-");
    const file = join(dir, "store.db");
    const store = await openSqliteStore({ file, threaded: false, migrations });
    const seeded = await fill(store);
    await store.close();
    const database = new DatabaseSync(file);
    for (const [text, values] of oldStatements?.("sqlite") ?? []) {
      database.prepare(text.replaceAll(/\$(\d+)/g, "?$1")).run(...values);
    }
    database.close();
    const upgraded = await openSqliteStore({ file, threaded: false });
    await check(upgraded, seeded);
    await upgraded.close();
    rmSync(dir, { recursive: true });
  });

  test("migrates a PostgreSQL database of the earlier version", async () => {
    const server = await startPostgres();
    try {
      const store = await openPostgresStore({ url: server.url, migrations });
      const seeded = await fill(store);
      await store.close();
      const direct = new pg.Client({ connectionString: server.url });
      await direct.connect();
      for (const [text, values] of oldStatements?.("postgres") ?? []) await direct.query(text, [...values]);
      await direct.end();
      const upgraded = await openPostgresStore({ url: server.url, caller_clock });
      await check(upgraded, seeded);
      await upgraded.close();
    } finally {
      await server.stop();
    }
  });
}
