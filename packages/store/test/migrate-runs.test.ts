/** Databases of the schema before runs and spans, with tapes and calls in them, are brought up to today's. */
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
import { type EntryRow, entryHash, originHash } from "../src/ops/entry-hash.ts";
import { encodeEntry } from "../src/stores/session-row.ts";
import { message, newChain, start } from "./sample-sessions.ts";
import { sampleEnd, sampleRun, tape } from "./sample-runs.ts";
import { LOCAL, sampleAudit, sampleInvocation, sampleSettlement } from "./samples.ts";

const BEFORE = MIGRATIONS.filter(({ version }) => version < 4);
const key = { scope: LOCAL, workspace: "/w", session_id: "s" };
const row = sampleInvocation({ session_id: "s" });

const ROOT = newChain().id;
const CHILD = newChain().id;
const child = { ...key, session_id: "child" };
const ENTRIES: EntryRow[] = [start, message("a"), message("b"), odd()].map(encodeEntry);

/** Characters that one of the two languages might spell in its own way. */
function odd() {
  return {
    ...message("b"),
    kind: "event" as const,
    payload: { name: "x.a", data: 'q"\\ \u0000 ü \ud800 \u2028' },
  };
}

/** As the schema of then had them. */
function oldTape(): [text: string, values: (string | number | null)[]][] {
  const { org_id, project_id } = LOCAL;
  const session = (
    id: string,
    chain: string,
    parent: string | null,
  ): [string, (string | number | null)[]] => [
    "insert into sessions values ($1, $2, '/w', $3, 'n', $4, $5, $5, 4, '{}', '2026-01-01T00:00:00.000Z')",
    [org_id, project_id!, id, parent, chain],
  ];
  const chain = (
    id: string,
    of: string,
    fork: number,
    hash: string,
  ): [string, (string | number | null)[]] => [
    "insert into chains values ($1, $2, $3, '/w', $4, $5, $6, $7, 4, $8, null, '2026-01-01T00:00:00.000Z')",
    [id, org_id, project_id!, of, fork === 0 ? "start" : "fork", fork === 0 ? null : ROOT, fork, hash],
  ];
  let hash = originHash("", ROOT, null, 0);
  const lines = ENTRIES.map((entry, index): [string, (string | number | null)[]] => {
    hash = entryHash(hash, ROOT, index + 1, entry);
    return ["insert into entries values ($1, $2, $3, $4, $5, $6, $7)", [ROOT, index + 1, ...entry, hash]];
  });
  return [
    session("s", ROOT, null),
    chain(ROOT, "s", 0, hash),
    session("child", CHILD, "s"),
    chain(CHILD, "child", 4, originHash(hash, CHILD, ROOT, 4)),
    ...lines,
  ];
}

async function fill(store: Store) {
  await store.invocations.open(row, { facts: { audit: sampleAudit() } });
  await store.close();
}

async function check(store: Store) {
  // Its text is from before there were turns, and before it said whose call it was.
  expect(await store.invocations.get(LOCAL, row.id)).toEqual({ ...row, turn: null, role: "user" });
  const settled = await store.invocations.settleWithTape(row.id, 1, sampleSettlement(), {}, tape(key, "c"));
  expect(settled).toEqual({ chain_id: ROOT, first_id: 5, last_id: 5 });
  const run = sampleRun(child);
  expect((await store.runs.list(LOCAL, {}, { limit: 9 })).items).toEqual([]);
  await store.runs.start(run, tape(child, "d"), {});
  await store.runs.end(LOCAL, run.id, sampleEnd(), tape(child, "e"), {});
  expect(await store.runs.get(LOCAL, run.id)).toMatchObject({ status: "completed", output: { entry_id: 6 } });
  expect((await store.sessions.replay(child, 0, 9)).map((entry) => entry.payload.content)).toEqual([
    undefined,
    "a",
    "b",
    undefined,
    "d",
    "e",
  ]);
  expect((await store.sessions.entries(LOCAL, ROOT, 3, 1))[0]!.payload).toEqual(odd().payload);
  expect((await store.sessions.sinceAnchor(LOCAL, CHILD)).map(({ id }) => id)).toEqual([1, 2, 3, 4, 5, 6]);
  for (const id of [ROOT, CHILD]) expect(await store.sessions.verify(LOCAL, id)).toBeNull();
  expect(await store.audit.verify()).toBeNull();
  await store.close();
}

test("SQLite", async () => {
  const dir = mkdtempSync(join(tmpdir(), "bp-migrate-"));
  const file = join(dir, "store.db");
  await fill(await openSqliteStore({ file, threaded: false, migrations: BEFORE }));
  const database = new DatabaseSync(file);
  database.exec("update invocations set body = json_remove(body, '$.turn', '$.role')");
  for (const [text, values] of oldTape()) {
    database.prepare(text.replaceAll(/\$(\d+)/g, "?$1")).run(...values);
  }
  database.close();
  await check(await openSqliteStore({ file, threaded: false }));
  rmSync(dir, { recursive: true });
});

test("PostgreSQL", async () => {
  const server = await startPostgres();
  try {
    await fill(await openPostgresStore({ url: server.url, migrations: BEFORE }));
    const direct = new pg.Client({ connectionString: server.url });
    await direct.connect();
    await direct.query("update invocations set body = (body::jsonb - 'turn' - 'role')::text");
    for (const [text, values] of oldTape()) await direct.query(text, values);
    await direct.end();
    await check(await openPostgresStore({ url: server.url }));
  } finally {
    await server.stop();
  }
});
