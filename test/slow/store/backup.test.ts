/** `backplane backup` and `restore` with running gateways, on SQLite and on PostgreSQL. */
import {
  copyFileSync,
  existsSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, onTestFinished } from "vitest";
import {
  cleanEnvironment,
  runCli,
  startTestGateway,
  type TestGateway,
} from "../../support/gateway/gateway.ts";
import { startPostgres } from "../../support/store/postgres.ts";
import { verifies } from "../../support/verifies.ts";

interface Rows {
  items: { id: string; status: string }[];
}

function temporaryFolder(): string {
  const folder = mkdtempSync(join(tmpdir(), "backplane-backup-"));
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }));
  return folder;
}

async function runCommand(gateway: TestGateway, ...args: string[]): Promise<string> {
  const { code, stdout, stderr } = await gateway.cli(...args);
  expect(code, `${args.join(" ")}\n${stderr}`).toBe(0);
  return stdout;
}

async function useHello(gateway: TestGateway): Promise<void> {
  await runCommand(gateway, "plugin", "install", "example:hello-tool");
  await runCommand(gateway, "binding", "create", "acme/hello", "hello");
  expect(await runCommand(gateway, "invoke", "hello", "--input", '{"name":"Ada"}')).toContain("Hello, Ada!");
  expect(
    (await gateway.http("PUT", "/v1/config/note.api_key", { value: "sealed-value" })).status,
  ).toBeLessThan(500);
  expect((await gateway.http("PUT", "/v1/secrets/token", { value: "first" })).status).toBeLessThan(300);
}

/** Checks the data and the functions of a restored gateway. */
async function expectRestored(gateway: TestGateway, calls: readonly string[]): Promise<void> {
  const { body } = await gateway.http<Rows>("GET", "/v1/invocations?export_id=hello");
  expect(body.items.map(({ id }) => id)).toEqual(calls);
  expect(await runCommand(gateway, "audit", "verify", "--json")).toContain('"status":"ok"');
  expect(await runCommand(gateway, "audit", "list", "--project", "*")).toContain("backup.restore");
  expect(await runCommand(gateway, "invoke", "hello", "--input", '{"name":"Grace"}')).toContain(
    "Hello, Grace!",
  );
  expect(await runCommand(gateway, "secret", "list")).toContain("token");
  // Opens every sealed value with its key.
  await runCommand(gateway, "secret", "rotate-key");
}

for (const kind of ["sqlite", "postgres"] as const) {
  verifies(
    "run.backup",
    `restores an archive of a running gateway on ${kind} into an empty home`,
    async () => {
      const folder = temporaryFolder();
      const servers = kind === "sqlite" ? [] : [await startPostgres(), await startPostgres()];
      onTestFinished(async () => void (await Promise.all(servers.map((server) => server.stop()))));
      const [from, to] =
        kind === "sqlite" ? [{}, {}] : servers.map(({ url }) => ({ BACKPLANE_STORE_URL: url }));
      const gateway = await startTestGateway({ env: from! });
      onTestFinished(() => gateway.dispose());
      await useHello(gateway);
      const before = await gateway.http<Rows>("GET", "/v1/invocations?export_id=hello");
      const archive = join(folder, "backup.tar.gz");
      // Calls that run during the backup are in the archive completely or not at all.
      const concurrent_call = gateway.cli("invoke", "hello", "--input", '{"name":"Lin"}');
      expect(await runCommand(gateway, "backup", archive)).toContain(archive);
      expect((await concurrent_call).stdout).toContain("Hello, Lin!");
      copyFileSync(join(gateway.home, "secret.key"), join(folder, "secret.key"));
      expect(await runCommand(gateway, "status")).toMatch(/last_backup: +\d{4}-/);
      await gateway.stop();

      const home = join(folder, "home");
      const env = cleanEnvironment({ BACKPLANE_HOME: home, ...to });
      const restored = await runCli(["restore", archive, "--key", join(folder, "secret.key")], env);
      expect(restored.code, restored.stderr).toBe(0);
      expect(existsSync(join(home, "admin.token"))).toBe(false);
      if (kind === "sqlite") expect((await runCli(["store", "check"], env)).stdout).toContain("is intact");
      const again = await startTestGateway({ home, env: to! });
      onTestFinished(() => again.dispose());
      const after = await again.http<Rows>("GET", "/v1/invocations?export_id=hello");
      const known = before.body.items.map(({ id }) => id);
      expect(after.body.items.map(({ id }) => id)).toEqual(expect.arrayContaining(known));
      await expectRestored(
        again,
        after.body.items.map(({ id }) => id),
      );
      const doctor = await runCommand(again, "doctor");
      expect(doctor).not.toMatch(/^store +failed/m);
    },
    300_000,
  );
}

verifies(
  "run.backup",
  "replaces a used database only with --force, and never under a running gateway",
  async () => {
    const folder = temporaryFolder();
    const server = await startPostgres();
    onTestFinished(() => server.stop());
    const env = { BACKPLANE_STORE_URL: server.url };
    const gateway = await startTestGateway({ env });
    onTestFinished(() => gateway.dispose());
    await useHello(gateway);
    const archive = join(folder, "backup.tar.gz");
    await runCommand(gateway, "backup", archive, "--with-credentials");
    await runCommand(gateway, "invoke", "hello", "--input", '{"name":"Later"}');
    const home = join(folder, "home");
    const restore = (...more: string[]) =>
      runCli(["restore", archive, ...more], cleanEnvironment({ BACKPLANE_HOME: home, ...env }));
    expect((await restore()).stderr).toContain("already contains a Backplane store");
    expect((await restore("--force")).stderr).toContain("error[home.locked]");
    expect(readdirSync(home).filter((name) => !name.startsWith("backplane.lock"))).toEqual([]);
    await gateway.stop();
    const forced = await restore("--force");
    expect(forced.code, forced.stderr).toBe(0);
    const again = await startTestGateway({ home, env });
    onTestFinished(() => again.dispose());
    // The archive contains the admin token and the key.
    expect(again.token).toBe(gateway.token);
    const { body } = await again.http<Rows>("GET", "/v1/invocations?export_id=hello");
    await expectRestored(again, [body.items[0]!.id]);
  },
);

verifies(
  "run.backup",
  "refuses a home in use and a damaged archive, and keeps what it replaces",
  async () => {
    const folder = temporaryFolder();
    const gateway = await startTestGateway();
    onTestFinished(() => gateway.dispose());
    await useHello(gateway);
    const archive = join(folder, "backup.tar.gz");
    const { stderr } = await gateway.cli("backup", archive);
    expect(stderr).toContain("secret.key is not part of it");
    expect((await gateway.cli("backup", archive)).stderr).toContain("already exists");
    await runCommand(gateway, "key", "create", "later", "--scope", "exports:read");

    expect((await gateway.cli("restore", archive)).stderr).toContain("is not empty");
    expect((await gateway.cli("restore", archive, "--force")).stderr).toContain("error[home.locked]");
    await gateway.stop();
    const bytes = readFileSync(archive);
    const damaged = join(folder, "damaged.tar.gz");
    for (const broken of [bytes.subarray(0, bytes.length - 4_000), flipByte(bytes)]) {
      writeFileSync(damaged, broken);
      const refused = await gateway.cli("restore", damaged, "--force");
      expect(refused.stderr).toContain("error[backup.invalid]");
    }
    const changed = readdirSync(gateway.home).filter((name) => /restor/.test(name));
    expect(changed).toEqual([]);
    const { kept } = JSON.parse(await runCommand(gateway, "restore", archive, "--force", "--json")) as {
      kept: string;
    };
    expect(existsSync(join(kept, "store.db"))).toBe(true);
    const again = await startTestGateway({ home: gateway.home });
    onTestFinished(() => again.dispose());
    expect(again.token).toBe(gateway.token);
    expect(await runCommand(again, "key", "list")).not.toContain("later");
    const { body } = await again.http<Rows>("GET", "/v1/invocations?export_id=hello");
    await expectRestored(again, [body.items[0]!.id]);
  },
);

function flipByte(bytes: Buffer): Buffer {
  const copy = Buffer.from(bytes);
  copy[Math.floor(copy.length / 2)]! ^= 1;
  return copy;
}
