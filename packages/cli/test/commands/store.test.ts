/** `store` and the store row of doctor, with a running gateway and with a damaged store. */
import { existsSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { DatabaseSync } from "node:sqlite";
import { loadConfig, startGateway } from "@backplane/gateway";
import { afterEach, beforeEach, expect, test } from "vitest";
import { EXIT, runProgram } from "../../src/index.ts";
import { captureIo } from "../support/capture-io.ts";

let home: string;
let file: string;
beforeEach(async () => {
  home = mkdtempSync(join(tmpdir(), "bp-store-cli-"));
  file = join(home, "store.db");
  const gateway = await startOnHome();
  for (const name of ["first", "second"])
    expect(await backplane("key", "create", name, "--scope", "exports:read")).toMatchObject({
      exit: EXIT.ok,
    });
  await gateway.stop();
});
afterEach(() => rmSync(home, { recursive: true, force: true }));

const startOnHome = () =>
  startGateway(loadConfig({ home, env: {}, flags: { port: 0, log_level: "silent" } }));

async function backplane(...argv: string[]) {
  const io = captureIo({ env: { BACKPLANE_HOME: home } });
  const exit = await runProgram([...argv, "--json"], io);
  return { exit, json: io.out() === "" ? null : JSON.parse(io.out()), err: io.err() };
}

function tamper(sql: string): void {
  const database = new DatabaseSync(file, { defensive: false });
  database.exec(sql);
  database.close();
}

async function readStoreRow() {
  const { json } = await backplane("doctor");
  return json.checks.find(({ name }: { name: string }) => name === "store");
}

test("reports an intact store on `check`, with the gateway running or stopped, and changes no file", async () => {
  const original_bytes = readFileSync(file);
  expect(await backplane("store", "check")).toMatchObject({
    exit: EXIT.ok,
    json: { status: "ok", lost_commits: 0 },
  });
  expect(readFileSync(file).equals(original_bytes)).toBe(true);
  expect(readdirSync(home).filter((name) => name.includes("check-"))).toEqual([]);
  const gateway = await startOnHome();
  expect(await backplane("store", "check")).toMatchObject({ exit: EXIT.ok, json: { status: "ok" } });
  expect(await readStoreRow()).toMatchObject({ status: "ok" });
  await gateway.stop();
});

test("reports a damaged row on `check` and `doctor`, and moves it to a file on `repair`, which is audited", async () => {
  tamper("update api_keys set body = replace(body, 'first', 'fake')");
  const { exit, json } = await backplane("store", "check");
  expect(exit).toBe(EXIT.failed);
  expect(json).toMatchObject({ status: "damaged", rows: [{ table: "api_keys" }] });
  expect(await readStoreRow()).toMatchObject({
    status: "failed",
    message: expect.stringMatching(/^the row ".+" of the table api_keys is damaged$/),
    fix: expect.stringContaining("backplane store repair"),
  });
  const gateway = await startOnHome();
  expect((await backplane("key", "list")).err).toContain("of the table api_keys is damaged");
  expect(await backplane("store", "repair")).toMatchObject({ err: expect.stringContaining("home.locked") });
  await gateway.stop();

  const repaired = await backplane("store", "repair");
  expect(repaired).toMatchObject({ exit: EXIT.ok, json: { lost_commits: 0, rows: [{ table: "api_keys" }] } });
  expect(readFileSync(join(repaired.json.kept, "damaged-rows.jsonl"), "utf8")).toContain("fake");
  expect((await backplane("store", "check")).exit).toBe(EXIT.ok);
  const again = await startOnHome();
  expect((await backplane("key", "list")).json.items.map(({ name }: { name: string }) => name)).toEqual([
    "second",
  ]);
  expect((await backplane("audit", "list", "--action", "store.repair")).json.items).toHaveLength(1);
  await again.stop();
});

test("restores a store from a backup and keeps the damaged files", async () => {
  const { json } = await backplane("store", "backup");
  expect(json.backup).toMatch(/store\.db\..+\.backup$/);
  writeFileSync(file, readFileSync(file).fill(7, 0, 4_096));
  await expect(startOnHome()).rejects.toMatchObject({
    code: "store.damaged",
    message: expect.stringContaining("is not a SQLite database"),
    fix: expect.stringContaining(`backplane store restore ${json.backup}`),
  });
  expect(await readStoreRow()).toMatchObject({ status: "failed" });
  const restored = await backplane("store", "restore", json.backup);
  expect(restored.exit).toBe(EXIT.ok);
  expect(existsSync(join(restored.json.kept, "store.db"))).toBe(true);
  const gateway = await startOnHome();
  expect((await backplane("key", "list")).json.items).toHaveLength(2);
  expect((await backplane("audit", "list", "--action", "store.restore")).json.items).toHaveLength(1);
  await gateway.stop();
});

test("does not start the gateway with missing commits until the loss is accepted", async () => {
  const count = readFileSync(`${file}.commits`, "utf8");
  tamper("update store_state set commits = commits - 3");
  // A lost log leaves an older row with a valid checksum, so `repair` renews the checksum of the changed row.
  rmSync(`${file}.commits`);
  await backplane("store", "repair");
  writeFileSync(`${file}.commits`, count);
  await expect(startOnHome()).rejects.toMatchObject({ code: "store.commits_lost" });
  expect(await readStoreRow()).toMatchObject({
    status: "failed",
    message: expect.stringContaining("acknowledged commits are missing"),
  });
  expect(await backplane("store", "repair")).toMatchObject({
    err: expect.stringContaining("store.commits_lost"),
  });
  expect(await backplane("store", "repair", "--accept-loss")).toMatchObject({ exit: EXIT.ok });
  await (await startOnHome()).stop();
});

test("refuses to restore a damaged backup or to overwrite an existing one", async () => {
  const { json } = await backplane("store", "backup");
  expect((await backplane("store", "backup", json.backup)).err).toContain("already exists");
  const bytes = readFileSync(json.backup);
  writeFileSync(json.backup, bytes.subarray(0, bytes.length - 4_096));
  const original_bytes = readFileSync(file);
  expect((await backplane("store", "restore", json.backup)).err).toContain("is damaged too");
  expect(readFileSync(file).equals(original_bytes)).toBe(true);
});
