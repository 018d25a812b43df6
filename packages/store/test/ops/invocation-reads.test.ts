import { expect, test } from "vitest";
import { MIGRATIONS } from "../../src/migrations/all-migrations.ts";
import { listInvocations } from "../../src/ops/invocation-reads.ts";
import { startWrite } from "../../src/ops/writes.ts";
import { openConnection } from "../../src/sqlite/connection/connection.ts";
import { migrateFile } from "../../src/sqlite/migrate.ts";
import { encodeInvocation } from "../../src/stores/invocation-row.ts";
import { sampleInvocation } from "../support/samples.ts";

test("continues a filtered list where its scan stopped, without missing rows", () => {
  const connection = openConnection(":memory:", "write");
  migrateFile(connection, ":memory:", MIGRATIONS, undefined);
  const rare_ids: string[] = [];
  for (let n = 0; n < 200; n++) {
    const rare = n % 37 === 5;
    const row = sampleInvocation({
      project_id: n % 3 === 0 ? "proj_b" : "proj_default",
      export_id: rare ? "rare" : "search",
    });
    if (rare) rare_ids.unshift(row.id);
    const records = { events: [], audit: null };
    const input = {
      row: encodeInvocation(row),
      trace_id: null,
      approval: null,
      delegation: null,
      tape: null,
      once: null,
      execution: null,
      run: null,
      job: null,
      records,
    };
    connection.run(startWrite("openInvocation", input, "sqlite"));
  }
  const filter = { statuses: [], export_id: "rare", session_id: "", binding_id: "" };
  for (const [project_id, limit] of [
    ["", 2],
    ["", 100],
    ["proj_b", 2],
    ["proj_default", 1],
  ] as const) {
    const ids_read: string[] = [];
    let before = "~";
    let pages = 0;
    for (;;) {
      // With windows of 4 rows and 5 windows per page, the scan of a page can stop before its limit is reached.
      const page = connection.run(
        listInvocations({ org_id: "org_local", project_id, filter, before, limit, window: 4 }),
      );
      pages++;
      ids_read.push(...page.rows.map((row) => row.id as string));
      const next = page.resume ?? (page.rows.length === limit ? (ids_read.at(-1) ?? null) : null);
      if (next === null) break;
      before = next;
    }
    expect(pages).toBeGreaterThan(2);
    const expected = rare_ids.filter((id) => project_id === "" || inProject(id, project_id));
    expect(ids_read).toEqual(expected);
  }
  function inProject(id: string, project_id: string): boolean {
    const op = listInvocations({
      org_id: "org_local",
      project_id,
      filter: { ...filter, export_id: "" },
      before: "~",
      limit: 500,
    });
    return connection.run(op).rows.some((row) => row.id === id);
  }
  connection.close();
});
