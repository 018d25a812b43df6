import { mkdtempSync, rmSync, symlinkSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { openSqliteStore } from "@backplane/store";
import { expect, onTestFinished } from "vitest";
import { verifies } from "../../../test/support/verifies.ts";
import { toPostgresError } from "../src/postgres/errors.ts";
import { createCommitCounter } from "../src/sqlite/connection/commit-counter.ts";
import { openConnection } from "../src/sqlite/connection/connection.ts";
import { toSqliteError } from "../src/sqlite/connection/sqlite-error.ts";
import { runBatch } from "../src/sqlite/writer/run-batch.ts";

verifies("fault.disk", "acknowledges a commit even if its count cannot be written", async () => {
  const dir = mkdtempSync(join(tmpdir(), "bp-failing-"));
  onTestFinished(() => rmSync(dir, { recursive: true, force: true }));
  const file = join(dir, "store.db");
  await (await openSqliteStore({ file, threaded: false })).close();
  rmSync(`${file}.commits`);
  symlinkSync("/dev/full", `${file}.commits`);
  const connection = openConnection(file, "write");
  onTestFinished(() => connection.close());
  const counter = createCommitCounter(connection, file)!;
  onTestFinished(() => counter.close());
  const write = { name: "acquireLease" as const, input: { name: "a", holder: "b", now: 1, ttl_ms: 1 } };
  const { broken, failures } = runBatch(connection, [write], counter);
  expect([broken, failures]).toEqual([null, []]);
  const count = connection.database.prepare("select count(*) as n from leases").get();
  expect(count).toEqual({ n: 1 });
});

verifies("fault.disk", "identifies the disk of the store in the error when the disk is full or fails", () => {
  const full = "There is no space left on the disk of";
  const failed = (place: string) => `The disk of ${place} failed with an I/O error.`;
  const sqlite = (errcode: number) => toSqliteError(Object.assign(new Error("sqlite"), { errcode })).message;
  const home = "the gateway's home (store.db)";
  expect([sqlite(13), sqlite(778), sqlite(1034)]).toEqual([`${full} ${home}.`, failed(home), failed(home)]);
  // Neither a truncated file nor a locked one is a failure of the disk.
  for (const errcode of [522, 5]) expect(sqlite(errcode)).not.toMatch(/disk of/);
  const postgres = (code: string) => toPostgresError(Object.assign(new Error("pg"), { code })).message;
  const database = "the PostgreSQL database";
  expect([postgres("53100"), postgres("58030")]).toEqual([`${full} ${database}.`, failed(database)]);
});
