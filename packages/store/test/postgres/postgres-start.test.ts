/** The errors of a gateway at start when `store.url` is wrong, with a real PostgreSQL. */
import { existsSync, readFileSync, writeFileSync } from "node:fs";
import { createServer } from "node:net";
import { join } from "node:path";
import pg from "pg";
import { afterAll, beforeAll, expect, test } from "vitest";
import { startPostgres, type TestPostgres } from "../../../../test/support/store/postgres.ts";
import { openPostgresStore } from "../../src/index.ts";
import { explainConnection } from "../../src/postgres/explain-connection.ts";

let server: TestPostgres;
beforeAll(async () => {
  server = await startPostgres();
});
afterAll(() => server?.stop());

function urlWith(change: (url: URL) => void): string {
  const url = new URL(server.url);
  change(url);
  return url.href;
}

async function openExpectingFailure(url: string): Promise<{ code: string; message: string; fix: string }> {
  const opened = await openPostgresStore({ url }).catch((error: unknown) => error);
  if (!(opened instanceof Error)) {
    await (opened as { close(): Promise<void> }).close();
    throw new Error("the store was opened");
  }
  return opened as unknown as { code: string; message: string; fix: string };
}

test("reports the name of a database that does not exist", async () => {
  const failure = await openExpectingFailure(urlWith((url) => (url.pathname = "/not_there")));
  expect(failure).toMatchObject({
    code: "store.unavailable",
    message: expect.stringMatching(/^PostgreSQL at \S+ has no database not_there\.$/),
    fix: expect.stringContaining("createdb"),
  });
});

test("reports the host and port of a server that cannot be reached", async () => {
  const closed = createServer();
  await new Promise<void>((done) => closed.listen(0, "127.0.0.1", done));
  const { port } = closed.address() as { port: number };
  await new Promise((done) => closed.close(done));
  const failure = await openExpectingFailure(`postgres://bob:hunter2@127.0.0.1:${port}/app`);
  expect(failure).toMatchObject({
    code: "store.unavailable",
    message: `PostgreSQL at 127.0.0.1:${port} cannot be reached (ECONNREFUSED).`,
    fix: expect.stringContaining("Check the host and port in store.url"),
  });
  expect(JSON.stringify(failure) + failure.message + failure.fix).not.toContain("hunter2");
});

test("reports that PostgreSQL refused the user, without showing the password", async () => {
  const hba_file = join(new URL(server.url).searchParams.get("host") ?? "", "data", "pg_hba.conf");
  const has_password = existsSync(hba_file);
  // In a cluster that the tests started, one user needs a password; in any other cluster, an unknown user is refused.
  if (has_password) {
    const admin = new pg.Client({ connectionString: server.url });
    await admin.connect();
    await admin.query("create role locked login password 'right'");
    writeFileSync(hba_file, `local all locked scram-sha-256\n${readFileSync(hba_file, "utf8")}`);
    await admin.query("select pg_reload_conf()");
    // The server applies the change a moment later.
    for (let rows: unknown[] = []; rows.length === 0; )
      rows = (await admin.query("select 1 from pg_hba_file_rules where user_name = '{locked}'")).rows;
    await admin.end();
  }
  const url = urlWith((target) => {
    target.username = has_password ? "locked" : "bp_nobody";
    target.password = "hunter2-hunter2";
    target.searchParams.delete("user");
  });
  let failure = await openExpectingFailure(url).catch(() => null);
  while (failure === null || failure.message.includes("does not allow the user locked to create"))
    failure = await openExpectingFailure(url).catch(() => null);
  expect(failure).toMatchObject({
    code: "store.unavailable",
    message: expect.stringMatching(
      /^PostgreSQL at \S+ refused the user \S+: the password is missing or wrong, or pg_hba\.conf/,
    ),
    fix: expect.stringContaining("Correct the user and the password in store.url"),
  });
  expect(JSON.stringify(failure) + failure.message).not.toContain("hunter2");
});

test("explains only connection errors", () => {
  expect(explainConnection(new Error("something else"), "postgres://a@b/c")).toBeNull();
  expect(explainConnection({ code: "ENOTFOUND" }, "postgres://a@b/c")!.message).toBe(
    "PostgreSQL at b:5432 cannot be reached (ENOTFOUND).",
  );
  expect(explainConnection({ code: "3D000" }, "no url")!.message).toContain("store.url is not a URL");
});
