import { mkdtempSync, rmSync, statSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { openSqliteStore } from "@backplane/store";
import pg from "pg";
import { expect, onTestFinished, test } from "vitest";
import { startPostgres } from "../../../../test/support/store/postgres.ts";
import { loadConfig } from "../../src/config/config.ts";
import { checkSystem } from "../../src/doctor/check-system.ts";

function createHome(): string {
  const home = mkdtempSync(join(tmpdir(), "backplane-doctor-"));
  onTestFinished(() => rmSync(home, { recursive: true, force: true }));
  return home;
}

async function readStoreCheck(home: string, env: Record<string, string> = {}) {
  const checks = await checkSystem(loadConfig({ home, env, flags: {} }));
  return checks.find(({ name }) => name === "store")!;
}

test("includes the WAL in the size of the store", async () => {
  const home = createHome();
  const file = join(home, "store.db");
  const store = await openSqliteStore({ file, threaded: false });
  onTestFinished(() => store.close());
  const bytes = statSync(file).size + statSync(`${file}-wal`).size;
  expect(bytes).toBeGreaterThan(statSync(file).size);
  expect(await readStoreCheck(home)).toMatchObject({
    status: "ok",
    message: expect.stringContaining(`(${bytes} bytes)`),
  });
});

test("reports whether PostgreSQL has page checksums, and when it is unreachable", async () => {
  const postgres = await startPostgres();
  const { url } = postgres;
  const client = new pg.Client({ connectionString: url });
  await client.connect();
  const { rows } = await client.query<{ data_checksums: string }>("show data_checksums");
  await client.end();
  const { data_checksums } = rows[0]!;
  const env = { BACKPLANE_STORE_URL: url };
  expect(await readStoreCheck(createHome(), env)).toMatchObject({
    status: data_checksums === "on" ? "ok" : "degraded",
    message: expect.stringContaining(`data_checksums ${data_checksums}`),
  });
  await postgres.stop();
  if (process.env.BACKPLANE_TEST_PG_URL !== undefined) return;
  expect(await readStoreCheck(createHome(), env)).toMatchObject({
    status: "failed",
    message: expect.stringContaining("the PostgreSQL database cannot be read: "),
  });
});
