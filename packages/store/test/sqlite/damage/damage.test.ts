/** Detection of damaged files of a SQLite store. */

import { copyFileSync, readdirSync, readFileSync, rmSync, truncateSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { DatabaseSync } from "node:sqlite";
import { openSqliteStore } from "@backplane/store";
import { createMemoryFolder } from "@backplane/test-kit/memory-folder";
import { afterAll, beforeAll, beforeEach, expect, test } from "vitest";
import { MIGRATIONS } from "../../../src/migrations/all-migrations.ts";
import { INVOCATION_COLUMNS } from "../../../src/ops/invocations.ts";
import { encodeInvocation } from "../../../src/stores/invocation-row.ts";
import { fillStore, readEverything } from "../../fixtures/full-store.ts";
import { message, start } from "../../support/sample-sessions.ts";
import { LOCAL, NOW, sampleBinding, sampleInvocation, sampleSettlement } from "../../support/samples.ts";

let dir: string;
let prepared: string;
let file: string;
let copies = 0;

beforeAll(async () => {
  dir = createMemoryFolder("bp-damage-");
  prepared = join(dir, "prepared.db");
  const store = await openSqliteStore({ file: prepared, threaded: false });
  await fillStore(store);
  copyFileSync(prepared, join(dir, "killed.db"));
  copyFileSync(`${prepared}-wal`, join(dir, "killed.db-wal"));
  copyFileSync(`${prepared}.commits`, join(dir, "killed.db.commits"));
  await store.close();
});
afterAll(() => rmSync(dir, { recursive: true }));
beforeEach(() => {
  file = join(dir, `store-${copies++}.db`);
  copyFileSync(prepared, file);
  copyFileSync(`${prepared}.commits`, `${file}.commits`);
});

const log: { message: string; fields: Record<string, unknown> }[] = [];
const logger = {
  debug() {},
  info() {},
  warn: (fields: object, message: string) => void log.push({ message, fields: { ...fields } }),
  error: (fields: object, message: string) => void log.push({ message, fields: { ...fields } }),
};
const openStore = (overrides: object = {}) =>
  openSqliteStore({ file, threaded: false, log: logger as never, ...overrides });
/** Replaces the store with the files that a killed gateway leaves behind, with the latest commits only in the WAL. */
const useKilledStore = () => {
  for (const part of ["", "-wal", ".commits"]) copyFileSync(join(dir, `killed.db${part}`), `${file}${part}`);
};
function tamper(text: string): void {
  const database = new DatabaseSync(file, { defensive: false });
  database.exec(text);
  database.close();
}
function flipBit(path: string, offset: number): void {
  const bytes = readFileSync(path);
  bytes[offset]! ^= 1;
  writeFileSync(path, bytes);
}
function countSpans(path: string): number {
  const database = new DatabaseSync(path, { readOnly: true });
  const { count } = database.prepare("select count(*) as count from spans").get() as { count: number };
  database.close();
  return count;
}
/** Changes that would go unnoticed without a checksum, each with a read that returns the changed row. */
const PLAUSIBLE_CHANGES: [table: string, change: string, read: string][] = [
  ["invocations", "outcome = replace(outcome, 'a', 'b')", "invocations"],
  ["invocations", "status = 'succeeded' where status = 'running'", "invocations"],
  ["invocation_events", "at = 'x'", "progress"],
  ["approvals", "status = 'approved'", "approvals"],
  ["allow_rules", "body = replace(body, 'key_1', 'key_2')", "allow_rules"],
  ["bindings", "body = replace(body, 'a', 'b')", "bindings"],
  ["packages", "digest = 'sha256:x'", "packages"],
  ["spans", "body = replace(body, 'short', 'shirt')", "entries"],
  ["spans", "first_id = first_id + 1000000 where last_id > first_id", "entries"],
  ["chains", "last_entry = last_entry + 1", "chains"],
  ["sessions", "name = 'other'", "sessions"],
  ["runs", "status = 'failed'", "runs"],
  ["executions", "child_runs = child_runs + 1", "executions"],
  ["outbox", "summary = '{}'", "outbox"],
  ["cursors", "seq = seq + 1", "cursor"],
  ["jobs", "payload = '0'", "jobs"],
  ["api_keys", "revoked_at = '2026'", "keys"],
  ["secrets", "last4 = '0000'", "secrets"],
  ["policies", "document = '{}'", "policies"],
  ["config", "value = '1'", "config"],
  ["definitions", "body = '{}'", "definitions"],
  ["sign_ins", "revision = 9", "sign_ins"],
  ["logins", "actor = 'other'", "logins"],
  ["delegations", "expires_at = 99", "delegations"],
  ["idempotency", "status = 500", "idempotency"],
  ["audit", "actor = 'other'", "audit"],
  // Reads find these rows by other columns and compare the changed one afterwards, so the change must not hide them.
  ["api_keys", "project_id = 'proj_other'", "keys"],
  ["secrets", "project_id = 'proj_other'", "secrets"],
  ["allow_rules", "project_id = 'proj_other'", "allow_rules"],
  ["allow_rules", "project_id = 'proj_other'", "allow_rules_of_package"],
  ["bindings", "project_id = 'proj_other'", "bindings"],
  ["bindings", "project_id = 'proj_other'", "bound"],
  ["bindings", "project_id = 'proj_other'", "discovered"],
  ["bindings", "status = 'disabled'", "discovered"],
  ["bindings", "kind = 'hook'", "discovered"],
  ["bindings", "status = 'disabled'", "whole_packages"],
  ["bindings", "status = 'disabled'", "hooks"],
  ["approvals", "project_id = 'proj_other'", "pending"],
  ["invocations", "org_id = 'org_other'", "invocation"],
  ["definitions", "org_id = 'org_other'", "definitions"],
  ["sign_ins", "org_id = 'org_other'", "sign_ins"],
  ["logins", "status = 'done'", "logins"],
  // The read finds these rows by `ref`, so a changed `ref` could hide the row. The checksum is changed instead.
  ["binding_secrets", "sum = sum + 1", "used_by"],
];

test.each(PLAUSIBLE_CHANGES)(
  "refuses a changed row of %s (%s) when %s reads it",
  async (table, change, read) => {
    tamper(`update ${table} set ${change}`);
    log.length = 0;
    const store = await openStore();
    const results = await readEverything(store);
    expect(results.get(read)).toMatch(
      new RegExp(`^error store\\.damaged: The row ".+" of the table ${table} is damaged`),
    );
    expect(log.map(({ message }) => message)).toContain("a row of the store is damaged and will not be used");
    expect(log[0]?.fields).toMatchObject({ table });
    await store.close();
  },
);

test("does not report healthy rows that a query excludes", async () => {
  const store = await openStore();
  // The first query below finds this row through an index on the org, and all its other conditions exclude the row.
  const hook = { binding_id: "bind_hook", kind: "hook", export_id: "notify", status: "disabled" } as const;
  await store.bindings.create(sampleBinding({ ...hook, package_version: "1.1.0" }), {});
  const other_project = { ...LOCAL, project_id: "proj_elsewhere" };
  const page = { limit: 500 };
  const { bindings, allow_rules, approvals, invocations } = store;
  expect(await bindings.list(other_project, { kind: "tool", package_id: "acme/other" }, page)).toMatchObject({
    items: [],
  });
  expect(await bindings.discover(other_project, "tool")).toEqual([]);
  expect(await bindings.findCandidates(other_project, "search", "acme/other")).toEqual([]);
  expect(await allow_rules.listForPackage(other_project, "acme/devkit")).toEqual([]);
  expect((await approvals.list(other_project, { status: "pending" }, page)).items).toEqual([]);
  expect(await invocations.get(other_project, "inv_full_000")).toBeNull();
  await store.close();
});

test("keeps other rows readable, and refuses to update a damaged row", async () => {
  tamper("update invocations set body = replace(body, 'a', 'b') where id = 'inv_full_000'");
  const store = await openStore();
  await expect(store.invocations.get(LOCAL, "inv_full_000")).rejects.toMatchObject({
    code: "store.damaged",
    details: { table: "invocations", id: '"inv_full_000"' },
  });
  expect(await store.invocations.get(LOCAL, "inv_full_003")).not.toBeNull();
  const settled = store.invocations.settle("inv_full_000", 1, sampleSettlement(), {});
  await expect(settled).rejects.toMatchObject({ code: "store.damaged" });
  await expect(store.invocations.get(LOCAL, "inv_full_000")).rejects.toMatchObject({ code: "store.damaged" });
  // A damaged row does not fail the other writes of its batch.
  const both = await Promise.allSettled([
    store.invocations.settle("inv_full_000", 1, sampleSettlement(), {}),
    store.invocations.open(sampleInvocation({ id: "inv_new" }), { records: {} }),
  ]);
  expect(both.map(({ status }) => status)).toEqual(["rejected", "fulfilled"]);
  await store.close();
});

test.each([
  ["sessions", "last_entry = last_entry + 1"],
  ["sessions", "head_chain = 'ch_other'"],
  ["chains", "hash = 'x'"],
])("refuses to append to a session whose row of %s was changed (%s)", async (table, change) => {
  const key = { scope: LOCAL, workspace: "/w", session_id: "sess_append" };
  for (const [id, session_id] of [
    ["ch_own", "sess_append"],
    ["ch_other", "sess_other"],
  ] as const) {
    const store = await openStore();
    const session = { key: { ...key, session_id }, name: "name", metadata: {} };
    await store.sessions.create(session, { id, created_at: NOW }, [start], {});
    await store.close();
  }
  tamper(`update ${table} set ${change} where ${table === "chains" ? "session_id" : "id"} = 'sess_append'`);
  const before = countSpans(file);
  const store = await openStore();
  await expect(store.sessions.append(key, [message("hi")])).rejects.toMatchObject({
    code: "store.damaged",
    details: { table },
  });
  await store.close();
  expect(countSpans(file)).toBe(before);
});

test("adds checksums to rows of an older schema, and still refuses a damaged row after a migration", async () => {
  file = join(dir, "old.db");
  const old = await openSqliteStore({
    file,
    threaded: false,
    migrations: MIGRATIONS.filter(({ version }) => version < 14),
  });
  await old.close();
  const database = new DatabaseSync(file);
  for (const id of ["inv_a", "inv_b"])
    database
      .prepare(`insert into invocations (${INVOCATION_COLUMNS}) values (${"?, ".repeat(12)}?)`)
      .run(...encodeInvocation(sampleInvocation({ id })));
  database.close();
  await (await openStore()).close();
  tamper("update invocations set node_id = 'x' where id = 'inv_a'");
  const column = {
    version: 1_000,
    name: "column",
    statements: ["alter table invocations add column note text"],
  };
  const store = await openStore({ migrations: [...MIGRATIONS, column] });
  await expect(store.invocations.get(LOCAL, "inv_a")).rejects.toMatchObject({ code: "store.damaged" });
  expect(await store.invocations.get(LOCAL, "inv_b")).not.toBeNull();
  await store.close();
});

test("refuses a store with a damaged WAL at each start, and keeps one copy of the WAL", async () => {
  useKilledStore();
  const size = readFileSync(`${file}-wal`).length;
  flipBit(`${file}-wal`, Math.floor(size / 2));
  for (let start = 0; start < 2; start++) {
    await expect(openStore()).rejects.toMatchObject({
      code: "store.commits_lost",
      message: expect.stringMatching(
        /^\d+ acknowledged commits are missing from .*written after 2.* and up to 2/,
      ),
      fix: expect.stringContaining("backplane store repair --accept-loss"),
    });
  }
  const wal_copies = readdirSync(dir).filter((name) =>
    name.startsWith(`${file.split("/").at(-1)}-wal.damaged-`),
  );
  expect(wal_copies).toHaveLength(1);
  expect(readFileSync(join(dir, wal_copies[0]!)).length).toBe(size);
});

test("opens the store of a killed gateway with its WAL, and refuses it if the WAL is missing", async () => {
  useKilledStore();
  const store = await openStore();
  expect(await store.invocations.get(LOCAL, "inv_full_039")).not.toBeNull();
  await store.close();
  useKilledStore();
  rmSync(`${file}-wal`);
  await expect(openStore()).rejects.toMatchObject({ code: "store.commits_lost" });
});

test.each([
  ["is empty", () => truncateSync(file, 0), "store.damaged", "is empty"],
  ["is missing", () => rmSync(file), "store.damaged", "is missing"],
  ["is truncated", () => truncateSync(file, 40_960), "store.damaged", "malformed"],
  ["is a text file", () => writeFileSync(file, "x".repeat(9_000)), "store.damaged", "not a SQLite database"],
  ["has a damaged first byte", () => flipBit(file, 0), "store.damaged", "not a SQLite database"],
  ["has another text encoding", () => flipBit(file, 58), "store.damaged", "text encoding"],
])("refuses to open and suggests restoring the backup when the file %s", async (_, damage, code, text) => {
  writeFileSync(`${file}.schema-12.backup`, "");
  damage();
  await expect(openStore()).rejects.toMatchObject({
    code,
    message: expect.stringContaining(text),
    fix: expect.stringContaining(`backplane store restore ${file}.schema-12.backup`),
  });
});

test("refuses to open a store with a damaged index", async () => {
  const database = new DatabaseSync(file);
  const { rootpage } = database
    .prepare("select rootpage from sqlite_schema where name = 'approvals_list'")
    .get() as { rootpage: number };
  const { page_size } = database.prepare("pragma page_size").get() as { page_size: number };
  database.close();
  const bytes = readFileSync(file);
  const at = bytes.indexOf("appr_full_020", (rootpage - 1) * page_size);
  flipBit(file, at);
  await expect(openStore()).rejects.toMatchObject({
    code: "store.damaged",
    message: expect.stringContaining("approvals_list"),
  });
});

test.each([
  [
    "a changed table definition",
    "pragma writable_schema = on; update sqlite_schema set sql = replace(sql, 'lane text not null', 'lane text') where name = 'jobs'",
  ],
  ["a dropped index", "drop index approvals_list"],
  ["a row number sequence that was reset", "update sqlite_sequence set seq = 0 where name = 'outbox'"],
])("refuses to open a store with %s", async (_, change) => {
  if (change.includes("sqlite_sequence")) tamper("delete from outbox");
  tamper(change);
  await expect(openStore()).rejects.toMatchObject({ code: "store.damaged" });
});

test("reports a damaged commit file, keeps a copy of it, and opens the store", async () => {
  flipBit(`${file}.commits`, 3);
  log.length = 0;
  const store = await openStore();
  await store.config.write(
    "org_local",
    { set: [{ key: "k", value: "1", sealed: false }], unset: [] },
    NOW,
    {},
  );
  await store.close();
  expect(log.map(({ message }) => message)).toEqual([
    expect.stringContaining("the count of commits is damaged"),
  ]);
  expect(readdirSync(dir).filter((name) => name.includes(".commits.damaged-"))).toHaveLength(1);
  await (await openStore()).close();
});

test("checks a large store in the background, and is no longer ready once damage is found", async () => {
  tamper("drop index approvals_list");
  const store = await openStore({ check_first_bytes: { structure: 0, rows: 0 } });
  await expect
    .poll(
      () =>
        store.ping().then(
          () => "ready",
          (error: { code: string }) => error.code,
        ),
      { timeout: 30_000 },
    )
    .toBe("store.damaged");
  await store.close();
});

test("refuses a damaged row even before the background check of the rows reports it", async () => {
  tamper("update invocations set outcome = '{}' where id = 'inv_full_000'");
  log.length = 0;
  const store = await openStore({ check_first_bytes: { rows: 0 } });
  await expect(store.invocations.get(LOCAL, "inv_full_000")).rejects.toMatchObject({ code: "store.damaged" });
  await expect
    .poll(() => log.map(({ message, fields }) => [message, fields.table]), { timeout: 30_000 })
    .toEqual([["a row of the store is damaged and will not be used", "invocations"]]);
  await store.ping();
  await store.close();
});

test("checks the structure before opening even if the rows are checked in the background", async () => {
  tamper("drop index approvals_list");
  await expect(openStore({ check_first_bytes: { rows: 0 } })).rejects.toMatchObject({
    code: "store.damaged",
  });
});
