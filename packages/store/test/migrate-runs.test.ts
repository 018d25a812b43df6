/** Databases of the schema before runs, with tapes and calls in them, are brought up to it. */
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { DatabaseSync } from "node:sqlite";
import type { Store } from "@backplane/kernel/ports";
import { openPostgresStore, openSqliteStore } from "@backplane/store";
import pg from "pg";
import { expect, test } from "vitest";
import { startPostgres } from "../../../test/support/postgres.ts";
import { MIGRATIONS } from "../src/migrations/index.ts";
import { message, newChain, newSession, start } from "./contract-sessions.ts";
import { sampleEnd, sampleRun, tape } from "./sample-runs.ts";
import { LOCAL, sampleAudit, sampleInvocation, sampleSettlement } from "./samples.ts";

const BEFORE = MIGRATIONS.filter(({ version }) => version < 4);
const key = { scope: LOCAL, workspace: "/w", session_id: "s" };
const row = sampleInvocation({ session_id: "s" });

async function fill(store: Store) {
  const { head_chain_id } = await store.sessions.create(newSession(key), newChain(), [start], {});
  await store.sessions.append(key, [message("a"), message("b")]);
  const child = { ...key, session_id: "child" };
  await store.sessions.fork({ scope: LOCAL, chain_id: head_chain_id }, newChain(), newSession(child), {});
  await store.invocations.open(row, { facts: { audit: sampleAudit() } });
  await store.close();
  return { head_chain_id, child };
}

async function check(store: Store, { head_chain_id, child }: Awaited<ReturnType<typeof fill>>) {
  // Its text is from before there were turns.
  expect(await store.invocations.get(LOCAL, row.id)).toEqual({ ...row, turn: null });
  const settled = await store.invocations.settleWithTape(row.id, 1, sampleSettlement(), {}, tape(key, "c"));
  expect(settled).toEqual({ chain_id: head_chain_id, first_id: 4, last_id: 4 });
  const run = sampleRun(child);
  expect((await store.runs.list(LOCAL, {}, { limit: 9 })).items).toEqual([]);
  await store.runs.start(run, tape(child, "d"), {});
  await store.runs.end(LOCAL, run.id, sampleEnd(), tape(child, "e"), {});
  expect(await store.runs.get(LOCAL, run.id)).toMatchObject({ status: "completed", output: { entry_id: 5 } });
  expect((await store.sessions.replay(child, 0, 9)).map((entry) => entry.payload.content)).toEqual([
    undefined,
    "a",
    "b",
    "d",
    "e",
  ]);
  expect(await store.sessions.verify(LOCAL, head_chain_id)).toBeNull();
  expect(await store.audit.verify()).toBeNull();
  await store.close();
}

test("SQLite", async () => {
  const dir = mkdtempSync(join(tmpdir(), "bp-migrate-"));
  const file = join(dir, "store.db");
  const left = await fill(await openSqliteStore({ file, threaded: false, migrations: BEFORE }));
  const database = new DatabaseSync(file);
  database.exec("update invocations set body = json_remove(body, '$.turn')");
  database.close();
  await check(await openSqliteStore({ file, threaded: false }), left);
  rmSync(dir, { recursive: true });
});

test("PostgreSQL", async () => {
  const server = await startPostgres();
  try {
    const left = await fill(await openPostgresStore({ url: server.url, migrations: BEFORE }));
    const direct = new pg.Client({ connectionString: server.url });
    await direct.connect();
    await direct.query("update invocations set body = (body::jsonb - 'turn')::text");
    await direct.end();
    await check(await openPostgresStore({ url: server.url }), left);
  } finally {
    await server.stop();
  }
});
