/** Statements that write a row together with its checksum. */
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, expect, test } from "vitest";
import { MIGRATIONS } from "../../../src/migrations/all-migrations.ts";
import { type Op, type Row, type SqlValue, sql } from "../../../src/ops/op.ts";
import { openConnection, type SqliteConnection } from "../../../src/sqlite/connection/connection.ts";
import { findDamagedRows } from "../../../src/sqlite/connection/row-checksums.ts";
import { migrateFile } from "../../../src/sqlite/migrate.ts";

let dir: string;
let connection: SqliteConnection;

beforeEach(() => {
  dir = mkdtempSync(join(tmpdir(), "bp-checksums-"));
  const file = join(dir, "store.db");
  connection = openConnection(file, "write");
  migrateFile(connection, file, MIGRATIONS, undefined);
  connection.enableRowChecks();
});
afterEach(() => {
  connection.close();
  rmSync(dir, { recursive: true });
});

function execute(text: string, values: SqlValue[] = []): Row[] {
  return connection.run(
    (function* (): Op<Row[]> {
      return yield sql(text, values);
    })(),
  );
}

const INSERT_LEASE = "insert into leases (name, holder, fence, expires_at) values ($1, $2, $3, $4)";

test.each<[form: string, text: string, values: SqlValue[]]>([
  ["parameters and literals", "insert into cursors (consumer, seq) values ($1, 7)", ["new"]],
  ["non-ASCII characters", "insert into cursors (consumer, seq) values ($1, $2)", ["é\0\ud800🙂", 1]],
  [
    "omitted columns",
    "insert into approvals (id, org_id, project_id, invocation_id, status, body) values ($1, $1, $1, $1, $1, $1)",
    ["a"],
  ],
  [
    "expressions",
    "insert into leases (name, holder, fence, expires_at) values ($1, 'it''s, (me)', 1, cast($2 as integer) + $3)",
    ["new", 5, 6],
  ],
  [
    "a conflict that updates",
    "insert into leases (name, holder, fence, expires_at) values ($1, $2, 1, 2) on conflict (name) do update set holder = excluded.holder, fence = leases.fence + 1 where leases.expires_at = 10 returning fence",
    ["old", "b"],
  ],
  ["a conflict that is ignored", `${INSERT_LEASE} on conflict do nothing`, ["old", "b", 2, 3]],
  [
    "an update with a condition",
    "update leases set holder = coalesce($2, holder), fence = fence + 1 where name = $1",
    ["old", null],
  ],
  ["an update of every row", "update leases set holder = '', expires_at = 0", []],
  ["an update that changes nothing", "update leases set fence = fence where name in ('old')", []],
])("writes a matching checksum with %s", (_, text, values) => {
  execute(INSERT_LEASE, ["old", "a", 1, 10]);
  execute(text, values);
  expect(findDamagedRows(connection.database, 10)).toEqual([]);
  expect(execute("select name from leases where name = 'old'")).toMatchObject([{ name: "old" }]);
});

test("numbers rows without gaps after a rollback, and does not reuse the numbers of deleted rows", () => {
  const add = () => execute("insert into sampling_uses (binding_id, at) values ($1, 1)", ["b"]);
  const publish = (id: string) =>
    execute(
      `insert into outbox (id, type, org_id, project_id, occurred_at, subject_kind, subject_id, summary, from_hook)
        values ($1, $1, $1, $1, 1, $1, $1, $1, 0)`,
      [id],
    );
  connection.exec("begin immediate");
  publish("a");
  publish("b");
  connection.exec("commit");
  connection.exec("begin immediate");
  publish("c");
  connection.exec("rollback");
  connection.exec("begin immediate");
  execute("delete from outbox where id = 'b'");
  publish("d");
  add();
  add();
  connection.exec("commit");
  expect(execute("select pos, id from outbox order by pos")).toMatchObject([
    { pos: 1, id: "a" },
    { pos: 3, id: "d" },
  ]);
  expect(findDamagedRows(connection.database, 10)).toEqual([]);
});

test.each([
  "insert into cursors (consumer, seq) select 'x', 1",
  "insert or replace into cursors (consumer, seq) values ('x', 1)",
  "replace into cursors (consumer, seq) values ('x', 1)",
  "update or ignore cursors set seq = 1",
  "update cursors set (consumer, seq) = ('x', 1)",
  "insert into runs (id, org_id, project_id, workspace, session_id, chain_id, status, node_id, body) values ('', '', '', '', '', '', '', '', '')",
])("refuses a statement that would write no checksum: %s", (text) => {
  expect(() => execute(text)).toThrow("a checksum cannot be added to this form of statement");
});

test("refuses a value that SQLite would convert, since its row would seem damaged", () => {
  expect(() => execute(INSERT_LEASE, ["a", 1, 1, 1])).toThrow("leases.holder cannot store a number");
  expect(() => execute(INSERT_LEASE, ["a", "b", "1", 1])).toThrow("leases.fence cannot store a string");
  execute(INSERT_LEASE, ["a", "b", 1, 1]);
  expect(() => execute("update leases set fence = $1", ["2"])).toThrow("leases.fence cannot store a string");
  expect(execute("select fence from leases")).toMatchObject([{ fence: 1 }]);
});
