import { chmodSync, mkdtempSync, readFileSync, statSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { readDaemon } from "@backplane/gateway";
import { expect, test } from "vitest";
import { clearDaemon, createFolders, openHome, readSecretKeys, writeDaemon } from "../../src/home/home.ts";

const createHomePath = () => join(mkdtempSync(join(tmpdir(), "backplane-home-")), "home");

test("creates a private home and its token once", () => {
  const dir = createHomePath();
  const first = openHome(dir);
  expect(statSync(dir).mode & 0o777).toBe(0o700);
  expect(statSync(first.admin_token_file).mode & 0o777).toBe(0o600);
  expect(first.admin_token).toMatch(/^bpa_[\w-]{43}$/);
  expect(openHome(dir).admin_token).toBe(first.admin_token);
});

test("refuses a token that others can read, with the command that fixes it", () => {
  const dir = createHomePath();
  const { admin_token_file } = openHome(dir);
  chmodSync(admin_token_file, 0o644);
  expect(() => openHome(dir)).toThrow(
    expect.objectContaining({
      fix: `chmod 600 ${admin_token_file}`,
      message: expect.stringContaining("can be read by others"),
    }),
  );
});

test("creates a secret key, reads several keys and rejects an invalid line", () => {
  const file = join(createHomePath(), "secret.key");
  const [only] = readSecretKeys(file);
  expect(only!.key).toHaveLength(32);
  writeFileSync(file, `${readFileSync(file, "utf8")}k2:${"ab".repeat(32)}\n`);
  expect(readSecretKeys(file).map((key) => key.id)).toEqual(["k1", "k2"]);
  writeFileSync(file, "k1:short\n");
  expect(() => readSecretKeys(file)).toThrow(/not a key/);
});

test("ignores the state file of a process that has exited", () => {
  const dir = createHomePath();
  openHome(dir);
  expect(readDaemon(dir)).toBeNull();
  writeDaemon(dir, { url: "http://127.0.0.1:1", pid: process.pid, version: "0" });
  expect(readDaemon(dir)?.pid).toBe(process.pid);
  writeDaemon(dir, { url: "http://127.0.0.1:1", pid: 2 ** 22 + 1, version: "0" });
  expect(readDaemon(dir)).toBeNull();
  clearDaemon(dir);
  expect(readDaemon(dir)).toBeNull();
});

test("creates nested private folders and throws if a folder cannot be created", () => {
  const deep = join(createHomePath(), "a", "b");
  createFolders(deep);
  createFolders(deep);
  expect(statSync(join(deep, "..")).mode & 0o777).toBe(0o700);
  writeFileSync(join(deep, "file"), "");
  expect(() => createFolders(join(deep, "file"))).toThrow(/EEXIST/);
  expect(() => createFolders(join(deep, "file", "x"))).toThrow(/ENOTDIR/);
  if (process.platform === "linux") expect(() => createFolders("/proc/backplane/home")).toThrow(/ENOENT/);
});
