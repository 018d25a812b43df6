import {
  chmodSync,
  chownSync,
  existsSync,
  lchownSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { codeOf } from "@backplane/contract";
import { openSqliteStore } from "@backplane/store";
import { afterEach, beforeEach, expect, test } from "vitest";
import { verifies } from "../../../../test/support/verifies.ts";
import { loadConfig } from "../../src/config/config.ts";
import { checkSystem } from "../../src/doctor/check-system.ts";
import { openHome } from "../../src/home/home.ts";
import { startGateway } from "../../src/start/start-gateway.ts";
import { storeFiles } from "../../src/store/store-files.ts";

const is_root = process.getuid?.() === 0;
const OTHER_UID = 12_345;

let base: string;
let home: string;
let umask: number;
beforeEach(() => {
  umask = process.umask(0);
  base = mkdtempSync(join(tmpdir(), "backplane-access-"));
  home = join(base, "home");
});
afterEach(() => {
  process.umask(umask);
  rmSync(base, { recursive: true, force: true });
});

const modeOf = (...parts: string[]) => (statSync(join(home, ...parts)).mode & 0o7777).toString(8);

function openRefusedHome(): { code: unknown; message: string; fix: string } {
  try {
    openHome(home);
  } catch (error) {
    const { message, fix } = error as { message: string; fix: string };
    return { code: codeOf(error), message, fix };
  }
  throw new Error("the home was opened");
}

async function readHomeCheck() {
  const checks = await checkSystem(loadConfig({ home, env: { BACKPLANE_SANDBOX: "0" } }));
  return checks.find(({ name }) => name === "home")!;
}

verifies("sec.home-modes", "makes an existing home and its entries inaccessible to other users", async () => {
  mkdirSync(join(home, "blobs", "sha256"), { recursive: true, mode: 0o777 });
  mkdirSync(join(home, "plugins", "npm"), { recursive: true, mode: 0o775 });
  for (const file of ["store.db", "store.db-wal", "store.db.schema-3.backup", "gateway.log", "notes.txt"])
    writeFileSync(join(home, file), "");
  writeFileSync(join(home, "plugins", "local.json"), "{}");
  chmodSync(home, 0o755);
  const initial_check = await readHomeCheck();
  expect(initial_check).toMatchObject({
    status: "failed",
    fix: expect.stringContaining(`chmod 0700 ${home} && `),
  });
  expect(initial_check.message).toContain(`${home} is accessible to other users (0755)`);
  expect(initial_check.message).toContain("and 6 more");

  const { problems } = openHome(home);
  expect(modeOf()).toBe("700");
  for (const entry of readdirSync(home, { withFileTypes: true }))
    expect(modeOf(entry.name), entry.name).toBe(entry.isDirectory() ? "700" : "600");
  expect([modeOf("blobs", "sha256"), modeOf("plugins", "npm")]).toEqual(["700", "700"]);
  expect(modeOf("plugins", "local.json")).toBe("600");
  expect(problems).toHaveLength(11);
  expect(problems).toContainEqual({
    path: join(home, "store.db"),
    message: `${join(home, "store.db")} is accessible to other users (0666)`,
    fix: `chmod 0600 ${join(home, "store.db")}`,
    action: "repair",
    mode: 0o600,
  });
  expect(await readHomeCheck()).toEqual({ name: "home", status: "ok", message: home });
  expect(openHome(home).problems).toEqual([]);
});

verifies("sec.home-modes", "creates files inaccessible to other users, even with a umask of 0", async () => {
  mkdirSync(home, { mode: 0o777 });
  const config = loadConfig({ home, env: {}, flags: { port: 0, log_level: "silent" } });
  const gateway = await startGateway({ ...config, plugins: { bundled_roots: [] } });
  try {
    const names = readdirSync(home);
    for (const name of ["store.db", "store.db-wal", "store.db-shm", "backplane.lock", "gateway.json"])
      expect(names).toContain(name);
    for (const name of names)
      expect([name, modeOf(name)]).toEqual([name, statSync(join(home, name)).isDirectory() ? "700" : "600"]);
    expect(modeOf()).toBe("700");
  } finally {
    await gateway.stop();
  }
});

verifies("sec.home-modes", "creates backups of the store inaccessible to other users", async () => {
  mkdirSync(home, { mode: 0o700 });
  process.umask(0o077);
  await (await openSqliteStore({ file: join(home, "store.db") })).close();
  const files = storeFiles(loadConfig({ home, env: {} }));
  const outside = join(base, "elsewhere.db");
  for (const work of [() => files.check(), () => files.backUp(), () => files.backUp(outside)]) {
    process.umask(0);
    work();
  }
  process.umask(0);
  await files.restore(outside);
  const accessible = readdirSync(home, { recursive: true, encoding: "utf8" }).filter(
    (name) => (statSync(join(home, name)).mode & 0o077) !== 0,
  );
  expect(accessible).toEqual([]);
  expect((statSync(outside).mode & 0o777).toString(8)).toBe("600");
});

verifies("sec.home-modes", "refuses a home that is a symbolic link without changing its target", async () => {
  const target = join(base, "elsewhere");
  mkdirSync(target, { mode: 0o755 });
  symlinkSync(target, home);
  expect(openRefusedHome()).toEqual({
    code: "home.unsafe",
    message: `The home ${home} is a symbolic link to ${target}.`,
    fix: `Set BACKPLANE_HOME to ${target} itself.`,
  });
  expect((statSync(target).mode & 0o777).toString(8)).toBe("755");
  expect(readdirSync(target)).toEqual([]);
  expect(await readHomeCheck()).toMatchObject({
    status: "failed",
    message: expect.stringContaining("symbolic link"),
  });
});

verifies("sec.home-modes", "refuses a home that every user can replace", async () => {
  mkdirSync(home, { mode: 0o700 });
  chmodSync(base, 0o777);
  expect(openRefusedHome()).toEqual({
    code: "home.unsafe",
    message: `Every user of this machine can replace the home ${home}: ${base} is writable by all.`,
    fix: `chmod o-w ${base}`,
  });
  expect(readdirSync(home)).toEqual([]);
  expect(await readHomeCheck()).toMatchObject({ status: "failed", fix: `chmod o-w ${base}` });
  // As in /tmp, only the owner may rename entries.
  chmodSync(base, 0o1777);
  expect(openHome(home).problems).toEqual([]);
});

verifies("sec.home-modes", "warns about a parent folder that is writable by its group", async () => {
  chmodSync(base, 0o770);
  const warning = { path: base, action: "warn", fix: `chmod g-w ${base}` };
  expect(openHome(home).problems).toMatchObject([warning]);
  expect(await readHomeCheck()).toMatchObject({ status: "degraded", fix: `chmod g-w ${base}` });
});

test("ignores symbolic links in the home and their targets", () => {
  const file = join(base, "shared.toml");
  writeFileSync(file, "");
  mkdirSync(home, { mode: 0o700 });
  symlinkSync(file, join(home, "backplane.toml"));
  expect(openHome(home).problems).toEqual([]);
  expect((statSync(file).mode & 0o777).toString(8)).toBe("666");
});

/** Only root can change the owner of a file. */
test.runIf(is_root)("refuses a home that belongs to another user", async () => {
  mkdirSync(home, { mode: 0o700 });
  chownSync(home, OTHER_UID, OTHER_UID);
  const { code, message, fix } = openRefusedHome();
  expect([code, message]).toEqual([
    "home.unsafe",
    `The home ${home} belongs to user ${OTHER_UID}, and the gateway runs as user 0.`,
  ]);
  expect(fix).toContain(`Run the gateway as user ${OTHER_UID}`);
  expect(readdirSync(home)).toEqual([]);
  expect(await readHomeCheck()).toMatchObject({ status: "failed" });
});

test.runIf(is_root)(
  "refuses files of another user in the home and warns about a parent folder of another user",
  () => {
    for (const path of [
      "store.db",
      "sandbox/sandbox-init",
      "blobs/sha256",
      "programs/host.jar",
      "plugins/x.jar",
    ]) {
      const file = join(home, path);
      mkdirSync(join(file, ".."), { recursive: true, mode: 0o700 });
      writeFileSync(file, "");
      lchownSync(file, OTHER_UID, OTHER_UID);
      expect(openRefusedHome(), path).toMatchObject({
        code: "home.unsafe",
        message: `${file} belongs to user ${OTHER_UID}, and the gateway runs as user 0.`,
      });
      rmSync(file);
      expect(existsSync(join(home, "admin.token"))).toBe(false);
    }
    symlinkSync("/etc/passwd", join(home, "store.db"));
    lchownSync(join(home, "store.db"), OTHER_UID, OTHER_UID);
    expect(openRefusedHome().message).toContain("store.db belongs to user");
    rmSync(join(home, "store.db"));
    chownSync(base, OTHER_UID, OTHER_UID);
    expect(openHome(home).problems).toMatchObject([{ path: base, action: "warn" }]);
  },
);
