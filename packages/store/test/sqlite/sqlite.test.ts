import { spawn } from "node:child_process";
import { once } from "node:events";
import { existsSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { DatabaseSync } from "node:sqlite";
import { fileURLToPath } from "node:url";
import type { Store } from "@backplane/ports";
import { type HookModule, openSqliteStore, SCHEMA_VERSION } from "@backplane/store";
import { createMemoryFolder } from "@backplane/test-kit/memory-folder";
import { createTestLogger } from "@backplane/test-kit/test-logger";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { verifies } from "../../../../test/support/verifies.ts";
import { MIGRATIONS } from "../../src/migrations/all-migrations.ts";
import { runUntilKilled } from "../support/killed-writer.ts";
import { LOCAL, sampleBinding, sampleInvocation, sampleKey, samplePackage } from "../support/samples.ts";

let dir: string;
let file: string;
beforeEach(() => {
  dir = createMemoryFolder("bp-sqlite-");
  file = join(dir, "store.db");
});
afterEach(() => rmSync(dir, { recursive: true }));

const fixture = (name: string) => fileURLToPath(new URL(`../fixtures/${name}.ts`, import.meta.url));
const hook = (data: object): HookModule => ({
  module: new URL("../fixtures/statement-hook.ts", import.meta.url).href,
  data,
});
const openSampleInvocation = (store: Store) => store.invocations.open(sampleInvocation(), { records: {} });

describe.each([true, false])("threaded: %s", (threaded) => {
  test("groups 100 concurrent writes into a few commits", async () => {
    const counts = new SharedArrayBuffer(8);
    const store = await openSqliteStore({ file, threaded, onStatement: hook({ counts }) });
    const commits = () => new Int32Array(counts)[1]!;
    const before = commits();
    await Promise.all(Array.from({ length: 100 }, () => openSampleInvocation(store)));
    expect(commits() - before).toBeLessThanOrEqual(3);
    await store.close();
  });

  test("commits the writes of one turn of the event loop together", async () => {
    const counts = new SharedArrayBuffer(8);
    const store = await openSqliteStore({ file, threaded, onStatement: hook({ counts }) });
    const commits = () => new Int32Array(counts)[1]!;
    const before = commits();
    const writes = Array.from(
      { length: 5 },
      () => new Promise<unknown>((resolve) => setImmediate(() => resolve(openSampleInvocation(store)))),
    );
    await Promise.all(writes);
    expect(commits() - before).toBe(1);
    await store.close();
  });

  test("keeps every acknowledged row after kill -9 during concurrent writes", async () => {
    const acknowledged = await runUntilKilled("writer", file, String(threaded));
    const database = new DatabaseSync(file);
    const find = database.prepare("select id from invocations where id = ?");
    const lost = acknowledged.filter((id) => id.length === 30 && find.get(id) === undefined);
    expect(acknowledged.length).toBeGreaterThanOrEqual(2_000);
    expect(lost).toEqual([]);
    expect(database.prepare("pragma integrity_check").get()).toEqual({ integrity_check: "ok" });
    database.close();
  });

  verifies(
    "fault.disk",
    "refuses whole batches on a full disk, and recovers when there is space again",
    async () => {
      // The limit of the shell is in blocks of 512 bytes; SIGXFSZ stays ignored across exec.
      const child = spawn(
        "/bin/sh",
        [
          "-c",
          'trap "" XFSZ; ulimit -S -f 6000; exec "$0" --conditions=backplane-source "$@"',
          process.execPath,
          fixture("full-disk"),
          file,
          String(threaded),
        ],
        { stdio: ["pipe", "pipe", "inherit"] },
      );
      const lines = createInterface({ input: child.stdout })[Symbol.asyncIterator]();
      expect((await lines.next()).value).toBe("full");
      await once(spawn("prlimit", ["--fsize=unlimited", "--pid", String(child.pid)]), "exit");
      child.stdin.write("go\n");
      const report = JSON.parse((await lines.next()).value as string) as object;
      await once(child, "exit");
      expect(report).toMatchObject({ codes: ["store.unavailable"], lost: 0, stored_refusals: 0, after: 20 });
    },
  );

  test("never returns a stale cached row", async () => {
    const store = await openSqliteStore({ file, threaded });
    const row = samplePackage();
    expect(await store.packages.find("org_local", "acme/devkit", "0.1.0")).toBeNull();
    await store.packages.insert(row, {});
    expect(await store.packages.find("org_local", "acme/devkit", "0.1.0")).toEqual(row);
    expect(await store.bindings.findCandidates(LOCAL, "search")).toEqual([]);
    const binding = sampleBinding();
    const creating = store.bindings.create(binding, {});
    await store.bindings.findCandidates(LOCAL, "search");
    await creating;
    expect(await store.bindings.findCandidates(LOCAL, "search")).toHaveLength(1);
    for (let generation = 1; generation < 20; generation++) {
      const updating = store.bindings.update({ ...binding, generation: generation + 1 }, generation, {});
      await Promise.all([store.bindings.get(LOCAL, binding.binding_id), updating]);
      expect((await store.bindings.get(LOCAL, binding.binding_id))?.binding.generation).toBe(generation + 1);
    }
    const key = sampleKey();
    await store.keys.create(key, "hash", {});
    expect((await store.keys.findByHash("hash"))?.revoked_at).toBeNull();
    await store.keys.revoke(LOCAL, key.id, "2026-11-02T00:00:00.000Z", {});
    expect((await store.keys.findByHash("hash"))?.revoked_at).toBe("2026-11-02T00:00:00.000Z");
    await store.close();
  });
});

test("fails the batch of a writer thread that dies, and starts a new thread", async () => {
  const counts = new SharedArrayBuffer(8);
  const messages: string[] = [];
  const log = createTestLogger((_, message) => messages.push(message));
  // The first commit creates the schema.
  const exit_at_commit = 2;
  const store = await openSqliteStore({ file, log, onStatement: hook({ counts, exit_at_commit }) });
  const results = await Promise.allSettled(Array.from({ length: 5 }, () => openSampleInvocation(store)));
  for (const result of results) {
    expect(result).toMatchObject({ status: "rejected", reason: { code: "store.unavailable" } });
  }
  await openSampleInvocation(store);
  expect((await store.invocations.list(LOCAL, {}, { limit: 10 })).items).toHaveLength(1);
  expect(messages.some((message) => message.includes("the next write starts a new one"))).toBe(true);
  await store.close();
});

test("fails only the failing operations of a burst that is split into batches", async () => {
  const store = await openSqliteStore({ file });
  const delegation = (invocation_id: string) => ({
    token_hash: "same",
    invocation_id,
    scope: LOCAL,
    scopes: [],
    expires_at: 1,
  });
  // 200 calls in one turn of the event loop do not fit in one batch. Two calls of the first batch and one of the last
  // use the same token.
  const results = await Promise.allSettled(
    Array.from({ length: 200 }, (_, n) => {
      const row = sampleInvocation();
      const optional = n === 1 || n === 2 || n === 198 ? { delegation: delegation(row.id) } : {};
      return store.invocations.open(row, { ...optional, records: {} });
    }),
  );
  const failed = results.flatMap((result, n) => (result.status === "rejected" ? [n] : []));
  expect(failed).toEqual([2, 198]);
  expect((await store.invocations.list(LOCAL, {}, { limit: 500 })).items).toHaveLength(198);
  await store.close();
});

test("refuses a newer schema", async () => {
  const future = {
    version: SCHEMA_VERSION + 1,
    name: "future",
    statements: ["create table future (one {int})"],
  };
  await (await openSqliteStore({ file, migrations: [...MIGRATIONS, future] })).close();
  await expect(openSqliteStore({ file })).rejects.toMatchObject({
    code: "store.schema_newer",
    details: { found: SCHEMA_VERSION + 1, newest: SCHEMA_VERSION },
  });
});

test("backs up an older file before migrating it, and undoes a failed step", async () => {
  const old = await openSqliteStore({ file, threaded: false });
  await openSampleInvocation(old);
  await old.close();
  expect(existsSync(`${file}.schema-${SCHEMA_VERSION}.backup`)).toBe(false);
  const broken = {
    version: SCHEMA_VERSION + 1,
    name: "broken",
    statements: ["create table half (one {int})", "insert into nowhere values (1)"],
  };
  await expect(openSqliteStore({ file, migrations: [...MIGRATIONS, broken] })).rejects.toMatchObject({
    code: "store.unavailable",
  });
  const again = await openSqliteStore({ file, threaded: false });
  expect((await again.invocations.list(LOCAL, {}, { limit: 10 })).items).toHaveLength(1);
  await again.close();
  const backup = new DatabaseSync(`${file}.schema-${SCHEMA_VERSION}.backup`, { readOnly: true });
  expect(backup.prepare("select count(*) as rows from invocations").get()).toEqual({ rows: 1 });
  expect(backup.prepare("select name from sqlite_schema where name = 'half'").get()).toBeUndefined();
  backup.close();
});

test("reports a file that is not a database as store.damaged, and does not change it", async () => {
  writeFileSync(file, "no database at all, but long enough to be mistaken for one".repeat(100));
  const before = readFileSync(file);
  await expect(openSqliteStore({ file })).rejects.toMatchObject({ code: "store.damaged" });
  expect(readFileSync(file).equals(before)).toBe(true);
});
