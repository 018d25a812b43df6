/** Tapes after a crash, the cost of a fork, and migrations from a schema without sessions. */

import { existsSync, rmSync } from "node:fs";
import { join } from "node:path";
import { DatabaseSync } from "node:sqlite";
import type { Store } from "@backplane/ports";
import { openPostgresStore, openSqliteStore } from "@backplane/store";
import { createMemoryFolder } from "@backplane/test-kit/memory-folder";
import { afterEach, beforeEach, expect, test } from "vitest";
import { startPostgres } from "../../../test/support/store/postgres.ts";
import { verifies } from "../../../test/support/verifies.ts";
import { MIGRATIONS } from "../src/migrations/all-migrations.ts";
import { runUntilKilled } from "./support/killed-writer.ts";
import { freshKey, message, newChain, newSession, start, summary } from "./support/sample-sessions.ts";
import { LOCAL, sampleAudit, sampleInvocation } from "./support/samples.ts";

let dir: string;
let file: string;
beforeEach(() => {
  dir = createMemoryFolder("bp-tape-");
  file = join(dir, "store.db");
});
afterEach(() => rmSync(dir, { recursive: true }));

for (const threaded of [true, false]) {
  verifies("tape.durable", `keeps acknowledged entries after kill -9 (threaded: ${threaded})`, async () => {
    const acknowledged = await runUntilKilled("tape-writer", file, String(threaded));
    const store = await openSqliteStore({ file, threaded: false });
    const stored = new Set<string>();
    for (const { head_chain_id } of (await store.sessions.list(LOCAL, {}, { limit: 9 })).items) {
      expect(await store.sessions.verify(LOCAL, head_chain_id)).toBeNull();
      const entries = await store.sessions.listEntries(LOCAL, head_chain_id, 0, 1_000_000);
      expect(entries.map((entry) => entry.id)).toEqual(entries.map((_, n) => n + 1));
      for (const { id } of entries) stored.add(`${head_chain_id} ${id}`);
    }
    await store.close();
    // The last line may be truncated.
    const complete_lines = acknowledged.slice(0, -1);
    expect(complete_lines.length).toBeGreaterThanOrEqual(1_999);
    expect(complete_lines.filter((line) => !stored.has(line))).toEqual([]);
  });
}

verifies("tape.fork", "forks 100,000 entries with as many statements as one entry", async () => {
  const counts = new SharedArrayBuffer(8);
  const hook = {
    module: new URL("./fixtures/statement-hook.ts", import.meta.url).href,
    data: { counts },
  };
  const store = await openSqliteStore({ file, threaded: false, onStatement: hook });
  const statements = () => new Int32Array(counts)[0]!;
  const key = freshKey();
  const chain_id = (await store.sessions.create(newSession(key), newChain(), [start], {})).head_chain_id;
  const fork = async (session_id: string) => {
    const before = statements();
    const created = await store.sessions.fork(
      { scope: key.scope, chain_id },
      newChain(),
      newSession({ ...key, session_id }),
      {},
    );
    return { chain: created, cost: statements() - before };
  };
  const small = await fork("small");
  for (let n = 0; n < 10; n++) {
    await store.sessions.append(
      key,
      Array.from({ length: 10_000 }, (_, i) => message(`${n}/${i}`)),
    );
  }
  const large = await fork("large");
  expect(large.cost).toBe(small.cost);
  expect(large.cost).toBeLessThan(8);
  const last = await store.sessions.listEntries(key.scope, large.chain.id, 100_000, 10);
  expect(last.map((entry) => entry.payload.content)).toEqual(["9/9999"]);
  await store.close();
  const database = new DatabaseSync(file);
  expect(database.prepare("select sum(last_id - first_id + 1) as entries from spans").get()).toEqual({
    entries: 100_001,
  });
  database.close();
});

async function fillOldSchema(store: Store): Promise<void> {
  await store.invocations.open(sampleInvocation(), { records: { audit: sampleAudit() } });
  await store.close();
}

async function expectMigrated(store: Store): Promise<void> {
  expect((await store.invocations.list(LOCAL, {}, { limit: 10 })).items).toHaveLength(1);
  expect(await store.audit.verify()).toBeNull();
  const key = { scope: LOCAL, workspace: "/w", session_id: "s" };
  const { head_chain_id } = await store.sessions.create(newSession(key), newChain(), [start], {});
  await store.sessions.append(key, [summary, message("a")]);
  expect(await store.sessions.listSinceAnchor(LOCAL, head_chain_id)).toHaveLength(2);
  await store.close();
}

test("backs up and migrates a SQLite file whose schema has no sessions", async () => {
  await fillOldSchema(await openSqliteStore({ file, threaded: false, migrations: MIGRATIONS.slice(0, 1) }));
  await expectMigrated(await openSqliteStore({ file, threaded: false }));
  expect(existsSync(`${file}.schema-1.backup`)).toBe(true);
});

test("migrates a PostgreSQL database whose schema has no sessions", async () => {
  const server = await startPostgres();
  try {
    await fillOldSchema(await openPostgresStore({ url: server.url, migrations: MIGRATIONS.slice(0, 1) }));
    await expectMigrated(await openPostgresStore({ url: server.url }));
  } finally {
    await server.stop();
  }
});
