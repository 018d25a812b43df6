/** An attacker with access to the database changes the audit log, with hashes and checksums, while the gateway is down. */
import { createHash } from "node:crypto";
import { cpSync, existsSync, mkdtempSync, readFileSync, renameSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { DatabaseSync } from "node:sqlite";
import { canonicalJson } from "@backplane/contract";
import { loadConfig, startGateway } from "@backplane/gateway";
import { afterAll, afterEach, beforeAll, beforeEach, expect, test } from "vitest";
import { EXIT, runProgram } from "../../packages/cli/src/index.ts";
import { captureIo } from "../../packages/cli/test/support/capture-io.ts";
import {
  addChecksumFunctions,
  checksummedTables,
} from "../../packages/store/src/sqlite/connection/row-checksums.ts";
import { startTestGateway } from "../support/gateway/gateway.ts";
import { verifies } from "../support/verifies.ts";

const ENTRIES = 8;
let prepared: string;
let home: string;
let dir: string;

beforeAll(async () => {
  dir = mkdtempSync(join(tmpdir(), "bp-audit-"));
  prepared = join(dir, "prepared");
  home = prepared;
  const gateway = await start();
  for (let n = 0; n < ENTRIES; n++) await backplane("config", "set", `app.k${n}`, String(n));
  await gateway.stop();
}, 60_000);
afterAll(() => rmSync(dir, { recursive: true, force: true }));
beforeEach(() => {
  home = mkdtempSync(join(dir, "home-"));
  cpSync(prepared, home, { recursive: true });
});
afterEach(() => rmSync(home, { recursive: true, force: true }));

const start = (toml = "") => {
  if (toml !== "") writeFileSync(join(home, "backplane.toml"), toml);
  return startGateway(loadConfig({ home, env: {}, flags: { port: 0, log_level: "silent" } }));
};

async function backplane(...argv: string[]) {
  const io = captureIo({ env: { BACKPLANE_HOME: home } });
  const exit = await runProgram([...argv, "--json"], io);
  return { exit, json: io.out() === "" ? null : JSON.parse(io.out()), err: io.err() };
}

/** Changes the database like an attacker who knows how row checksums are computed. */
function tamper(change: (database: DatabaseSync) => void): void {
  const database = new DatabaseSync(join(home, "store.db"));
  addChecksumFunctions(database);
  change(database);
  for (const { name, columns } of checksummedTables(database)) {
    if (name !== "audit" && name !== "audit_head") continue;
    database.exec(`update ${name} set sum = row_checksum(${columns.join(", ")})`);
  }
  database.close();
}

/** Recomputes every hash and the head. */
function rehash(database: DatabaseSync): void {
  let hash = "";
  let last = 0;
  for (const row of database.prepare("select * from audit order by seq").all() as Record<
    string,
    string | number
  >[]) {
    const values = ["id", "at", "org_id", "project_id", "actor", "action", "subject", "details"].map(
      (name) => row[name]!,
    );
    hash = createHash("sha256")
      .update(`${hash}\n${row.seq}\n${canonicalJson(values)}`)
      .digest("hex");
    last = Number(row.seq);
    database.prepare("update audit set hash = ? where seq = ?").run(hash, last);
  }
  database.prepare("update audit_head set seq = ?, hash = ?").run(last, hash);
}

const readLastSeq = (database: DatabaseSync) =>
  (database.prepare("select max(seq) as seq from audit").get() as { seq: number }).seq;

const CASES: [what: string, change: (database: DatabaseSync) => void, says: RegExp][] = [
  [
    "an edited entry",
    (db) => db.exec("update audit set actor = 'somebody' where seq = 3"),
    /entry 3 was changed/,
  ],
  ["a deleted entry", (db) => db.exec("delete from audit where seq = 3"), /entry 3 is missing/],
  [
    "two entries in another order",
    (db) =>
      db.exec(
        "update audit set seq = 1000 where seq = 3; update audit set seq = 3 where seq = 4; update audit set seq = 4 where seq = 1000",
      ),
    /entry 3 was changed/,
  ],
  [
    "a missing last entry",
    (db) => db.exec(`delete from audit where seq = ${readLastSeq(db)}`),
    /entry \d+ is missing/,
  ],
  [
    "missing last entries with the head set back",
    (db) => {
      db.exec(`delete from audit where seq > ${readLastSeq(db) - 2}`);
      rehash(db);
    },
    /which .*audit\.anchor refers to, is missing: the end of the log was removed/,
  ],
  [
    "an emptied log",
    (db) => db.exec("delete from audit; update audit_head set seq = 0, hash = ''"),
    /the end of the log was removed/,
  ],
  [
    "an edited entry with recomputed hashes",
    (db) => {
      db.exec("update audit set actor = 'somebody' where seq = 3");
      rehash(db);
    },
    /differs from the one that .*audit\.anchor refers to: the log was rewritten/,
  ],
];

test("verifies an untouched log, even after more entries and a restart", async () => {
  for (let n = 0; n < 2; n++) {
    const gateway = await start();
    expect(await backplane("audit", "verify")).toMatchObject({
      exit: EXIT.ok,
      json: { status: "ok", broken: null },
    });
    await backplane("config", "set", "app.more", String(n));
    await gateway.stop();
    expect(JSON.parse(readFileSync(join(home, "audit.anchor"), "utf8"))).toMatchObject({
      seq: expect.any(Number),
    });
  }
  const gateway = await start();
  const { json } = await backplane("audit", "verify");
  expect(json.anchor.seq).toBe(json.entries);
  expect((await backplane("doctor")).json.checks).toContainEqual(
    expect.objectContaining({ name: "audit", status: "ok" }),
  );
  await gateway.stop();
});

for (const [label, change, says] of CASES) {
  verifies("integrity.audit", `audit verify and doctor detect ${label}, even after new entries`, async () => {
    tamper(change);
    const gateway = await start();
    const verification = await backplane("audit", "verify");
    expect(verification).toMatchObject({
      exit: EXIT.failed,
      json: { status: "broken", broken: { reason: expect.stringMatching(says) } },
    });
    expect((await backplane("doctor")).json.checks).toContainEqual(
      expect.objectContaining({ name: "audit", status: "failed", message: expect.stringMatching(says) }),
    );
    await backplane("config", "set", "app.after", "1");
    await gateway.stop();
    const again = await start();
    expect((await backplane("audit", "verify")).exit).toBe(EXIT.failed);
    await again.stop();
  });
}

verifies("integrity.audit", "reports a changed audit log in the gateway's log at start", async () => {
  tamper((database) => {
    database.exec(`delete from audit where seq > ${readLastSeq(database) - 1}`);
    rehash(database);
  });
  const gateway = await startTestGateway({ home });
  await expect.poll(() => gateway.log(), { timeout: 30_000 }).toContain("the audit log was changed");
  expect(gateway.log()).toContain("the end of the log was removed");
  await gateway.stop();
});

test("exports every entry once across restarts, and detects a truncated log without its anchor", async () => {
  const toml = '[audit]\nexport = "audit.jsonl"\n';
  const lines = () =>
    readFileSync(join(home, "audit.jsonl"), "utf8")
      .trim()
      .split("\n")
      .map((line) => JSON.parse(line) as { seq: number });
  await (await start(toml)).stop();
  const gateway = await start(toml);
  await backplane("config", "set", "app.exported", "1");
  await gateway.stop();
  const seqs = lines().map(({ seq }) => seq);
  expect(seqs).toEqual(Array.from({ length: seqs.length }, (_, n) => n + 1));
  expect(seqs.length).toBeGreaterThan(ENTRIES);
  rmSync(join(home, "audit.anchor"));
  tamper((database) => {
    database.exec(`delete from audit where seq > ${readLastSeq(database) - 1}`);
    rehash(database);
  });
  const after = await start(toml);
  expect((await backplane("audit", "verify")).json.broken.reason).toMatch(
    /which .*audit\.jsonl refers to, is missing/,
  );
  await after.stop();
  expect(lines()).toHaveLength(seqs.length);
});

test("rewrites a line of the export that a crash truncated", async () => {
  const toml = '[audit]\nexport = "audit.jsonl"\n';
  await (await start(toml)).stop();
  const file = join(home, "audit.jsonl");
  const text = readFileSync(file, "utf8");
  writeFileSync(file, text.slice(0, -20));
  await (await start(toml)).stop();
  const whole = readFileSync(file, "utf8")
    .split("\n")
    .filter((line) => line.endsWith("}"));
  expect(whole.map((line) => (JSON.parse(line) as { seq: number }).seq)).toEqual(
    text
      .trim()
      .split("\n")
      .map((_, n) => n + 1),
  );
});

test("reports a damaged anchor without replacing it, and creates a new one after the old one was moved away", async () => {
  const file = join(home, "audit.anchor");
  const bytes = readFileSync(file);
  bytes[10]! ^= 1;
  writeFileSync(file, bytes);
  const gateway = await start();
  expect((await backplane("audit", "verify")).json.broken.reason).toContain("audit.anchor is damaged");
  await gateway.stop();
  expect(readFileSync(file).equals(bytes)).toBe(true);
  renameSync(file, `${file}.old`);
  const again = await start();
  expect((await backplane("audit", "verify")).exit).toBe(EXIT.ok);
  await again.stop();
  expect(existsSync(file)).toBe(true);
});
