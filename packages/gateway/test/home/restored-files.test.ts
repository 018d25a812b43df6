import {
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, expect } from "vitest";
import { verifies } from "../../../../test/support/verifies.ts";
import {
  assertNotRestoring,
  finishRestore,
  listPreviousFiles,
  placeFiles,
  stagedFiles,
} from "../../src/home/restored-files.ts";

let home: string;
let staging: string;
beforeEach(() => {
  home = mkdtempSync(join(tmpdir(), "bp-restored-"));
  staging = join(home, ".restoring-1");
  mkdirSync(stagedFiles(staging), { recursive: true });
});
afterEach(() => rmSync(home, { recursive: true, force: true }));

const write = (folder: string, ...names: string[]) => {
  for (const name of names) writeFileSync(join(folder, name), `${folder === home ? "old" : "new"} ${name}`);
};
const read = (name: string) => readFileSync(join(home, name), "utf8");

verifies("run.backup", "moves previous files aside and keeps credentials that the archive lacks", () => {
  write(home, "store.db", "store.db-wal", "secret.key", "admin.token", "backplane.lock");
  write(stagedFiles(staging), "store.db", "backplane.toml", "admin.token");
  expect(listPreviousFiles(home).sort()).toEqual(["store.db", "store.db-wal"]);
  const previous_folder = placeFiles(home, staging)!;
  expect(readdirSync(previous_folder).sort()).toEqual(["admin.token", "store.db", "store.db-wal"]);
  expect([read("store.db"), read("secret.key"), read("admin.token")]).toEqual([
    "new store.db",
    "old secret.key",
    "new admin.token",
  ]);
  expect(readdirSync(home).filter((name) => name.startsWith(".restor"))).toEqual([]);
});

verifies("run.backup", "completes a restore that was interrupted between two of its steps", () => {
  write(home, "store.db", "store.db-wal", "workspaces.json");
  write(stagedFiles(staging), "store.db", "workspaces.json");
  const plan = {
    previous: ["store.db", "store.db-wal", "workspaces.json"],
    restored: ["store.db", "workspaces.json"],
    kept: "before-restore-x",
  };
  writeFileSync(join(staging, "plan.json"), JSON.stringify(plan));
  // As if the process had been killed after the first restored file.
  renameSync(staging, join(home, ".restored"));
  mkdirSync(join(home, "before-restore-x"));
  renameSync(join(home, "store.db-wal"), join(home, "before-restore-x/store.db-wal"));
  renameSync(join(home, "store.db"), join(home, "before-restore-x/store.db"));
  renameSync(join(home, ".restored/files/store.db"), join(home, "store.db"));
  expect(() => assertNotRestoring(home)).toThrow(expect.objectContaining({ code: "home.restoring" }));
  expect(finishRestore(home)).toBe(join(home, "before-restore-x"));
  expect(() => assertNotRestoring(home)).not.toThrow();
  expect([read("store.db"), read("workspaces.json")]).toEqual(["new store.db", "new workspaces.json"]);
  expect(readdirSync(join(home, "before-restore-x")).sort()).toEqual(plan.previous);
  expect(existsSync(join(home, ".restored"))).toBe(false);
  expect(finishRestore(home)).toBe(null);
});
