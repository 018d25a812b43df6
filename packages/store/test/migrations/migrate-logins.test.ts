/** The migration to logins that belong to a browser: removes existing login attempts and keeps completed sign-ins. */

import { rmSync } from "node:fs";
import { join } from "node:path";
import { DatabaseSync } from "node:sqlite";
import type { Store } from "@backplane/ports";
import { openPostgresStore, openSqliteStore } from "@backplane/store";
import { createMemoryFolder } from "@backplane/test-kit/memory-folder";
import pg from "pg";
import { expect, test } from "vitest";
import { startPostgres } from "../../../../test/support/store/postgres.ts";
import { MIGRATIONS } from "../../src/migrations/all-migrations.ts";

const EARLIER_MIGRATIONS = MIGRATIONS.filter(({ version }) => version < 11);
const login = (id: string, status: string) =>
  `insert into logins (binding_id, org_id, state_hash, actor, status, message, expires_at, ciphertext)
    values ('${id}', 'org_a', 'state-${id}', 'admin', '${status}', null, 9000, 'v1.k1.x')`;
const EXISTING_ROWS = [
  login("bind_a", "pending"),
  login("bind_b", "done"),
  `insert into sign_ins (binding_id, org_id, revision, renewing_until, ciphertext)
    values ('bind_b', 'org_a', 3, 0, 'v1.k1.y')`,
];

async function expectMigrated(store: Store): Promise<void> {
  const { sign_ins } = store;
  expect(await sign_ins.getPendingLogin("state-bind_a", 0)).toBeNull();
  expect(await sign_ins.getLoginState("org_a", "bind_b")).toBeNull();
  expect(await sign_ins.openLogin("", "browser-hash", 0)).toBeNull();
  expect(await sign_ins.get("org_a", "bind_b")).toMatchObject({ revision: 3, ciphertext: "v1.k1.y" });
  await store.close();
}

test("removes earlier login attempts and keeps sign-ins on SQLite", async () => {
  const dir = createMemoryFolder("bp-migrate-");
  const file = join(dir, "store.db");
  await (await openSqliteStore({ file, threaded: false, migrations: EARLIER_MIGRATIONS })).close();
  const database = new DatabaseSync(file);
  for (const text of EXISTING_ROWS) database.exec(text);
  database.close();
  await expectMigrated(await openSqliteStore({ file, threaded: false }));
  rmSync(dir, { recursive: true });
});

test("removes earlier login attempts and keeps sign-ins on PostgreSQL", async () => {
  const server = await startPostgres();
  try {
    await (await openPostgresStore({ url: server.url, migrations: EARLIER_MIGRATIONS })).close();
    const direct = new pg.Client({ connectionString: server.url });
    await direct.connect();
    for (const text of EXISTING_ROWS) await direct.query(text);
    await direct.end();
    await expectMigrated(await openPostgresStore({ url: server.url, caller_clock: true }));
  } finally {
    await server.stop();
  }
});
