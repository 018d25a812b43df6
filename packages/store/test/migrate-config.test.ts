/** Databases of the schema before the live configuration, with data in them, are brought up to it. */
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { Store } from "@backplane/kernel/ports";
import { openPostgresStore, openSqliteStore } from "@backplane/store";
import { expect, test } from "vitest";
import { startPostgres } from "../../../test/support/postgres.ts";
import { MIGRATIONS } from "../src/migrations/index.ts";
import { LOCAL, NOW, sampleAudit, sampleBinding, samplePackage } from "./samples.ts";

const BEFORE = MIGRATIONS.filter(({ version }) => version < 3);

async function fill(store: Store) {
  const content = samplePackage();
  const binding = sampleBinding();
  await store.packages.insert(content, { audit: sampleAudit() });
  await store.bindings.create(binding, {});
  await store.secrets.put({ org_id: "org_local", name: "s", ciphertext: "c", last4: "wxyz" }, NOW, {});
  await store.close();
  return { content, binding };
}

async function check(store: Store, { content, binding }: Awaited<ReturnType<typeof fill>>) {
  expect(await store.bindings.get(LOCAL, binding.binding_id)).toEqual({ binding, package: content });
  expect((await store.secrets.get("org_local", "s"))?.last4).toBe("wxyz");
  expect(await store.audit.verify()).toBeNull();
  expect(await store.config.list("org_local", "")).toEqual([]);
  const row = { key: "provider", value: '"prod"', sealed: false };
  await store.config.write("org_local", { set: [row], unset: [] }, NOW, { audit: sampleAudit() });
  expect(await store.config.get("org_local", "provider")).toEqual(row);
  await store.close();
}

test("SQLite", async () => {
  const dir = mkdtempSync(join(tmpdir(), "bp-migrate-"));
  const file = join(dir, "store.db");
  const left = await fill(await openSqliteStore({ file, threaded: false, migrations: BEFORE }));
  await check(await openSqliteStore({ file, threaded: false }), left);
  rmSync(dir, { recursive: true });
});

test("PostgreSQL", async () => {
  const server = await startPostgres();
  try {
    const left = await fill(await openPostgresStore({ url: server.url, migrations: BEFORE }));
    await check(await openPostgresStore({ url: server.url }), left);
  } finally {
    await server.stop();
  }
});
