/**
 * A gateway whose disk is full or fails: every write is either acknowledged and kept, or refused with a 5xx and absent.
 * When the disk works again, so does the gateway, without a restart.
 */
import { execFileSync } from "node:child_process";
import {
  closeSync,
  fstatSync,
  ftruncateSync,
  mkdtempSync,
  openSync,
  readdirSync,
  readFileSync,
  rmSync,
  writeFileSync,
  writeSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, onTestFinished } from "vitest";
import { startTestGateway, type TestGateway } from "../../support/gateway/gateway.ts";
import { eventually } from "../../support/gateway/processes.ts";
import { installAndBind, vaiProgram, writePluginFolder } from "../../support/plugins/plugin-folder.ts";
import { createFailingDisk, type DiskErrno, type FailingDisk } from "../../support/store/failing-disk.ts";
import { verifies } from "../../support/verifies.ts";

const ECHO = `async (call) => ({ status: "succeeded", result: { content: [], structured_output: call.body.input } })`;
/** A write-ahead log with free space accepts some writes even on a full disk. */
const MAX_WRITES = 400;
/** The number of writes that must be refused; enough that writes of every kind are among them. */
const REFUSALS = 25;

interface WriteResult {
  kind: string;
  name: string;
  status: number;
  code: string | undefined;
}

/** Writes records of five kinds, each with a name that can be searched for. */
const KINDS: Record<string, (gateway: TestGateway, name: string) => ReturnType<TestGateway["http"]>> = {
  invocation: (gateway, name) =>
    gateway.http("POST", "/v1/invocations", { export_id: "echo", input: { name, fill: "x".repeat(4_000) } }),
  secret: (gateway, name) => gateway.http("PUT", `/v1/secrets/${name}`, { value: "x".repeat(2_000) }),
  config: (gateway, name) =>
    gateway.http("PATCH", `/api/config/plugin.probe.${name}`, { value: "x".repeat(2_000) }),
  key: (gateway, name) => gateway.http("POST", "/v1/keys", { name, scopes: ["invocations:read"] }),
  session: (gateway, name) => gateway.http("POST", `/v1/sessions/${name}/messages`, { text: "hello" }),
};

async function writeAll(gateway: TestGateway, prefix: string): Promise<WriteResult[]> {
  const written: WriteResult[] = [];
  const refusals = () => written.filter(({ status }) => status >= 500).length;
  for (let n = 0; n < MAX_WRITES && refusals() < REFUSALS; n++) {
    const kind = Object.keys(KINDS)[n % 5]!;
    const name = `${prefix}_${kind}_${n}`;
    const { status, body } = await KINDS[kind]!(gateway, name);
    const { error } = (body ?? {}) as { error?: { code: string } };
    written.push({ kind, name, status, code: error?.code });
  }
  return written;
}

interface Page {
  next?: string | null;
  items?: { id: string }[];
}

/** The lists of these records as one text, which contains the names of the stored ones. */
async function readStoredRecords(gateway: TestGateway): Promise<string> {
  const pages = [
    "/v1/secrets?limit=200",
    "/api/config",
    "/v1/keys?limit=200",
    "/v1/sessions?limit=200",
    "/v1/invocations?limit=200",
  ];
  const texts: string[] = [];
  for (const path of pages) {
    let next: string | null = path;
    while (next !== null) {
      const { status, body }: { status: number; body: Page } = await gateway.http<Page>("GET", next);
      expect(status, path).toBe(200);
      texts.push(JSON.stringify(body));
      if (path.startsWith("/v1/invocations"))
        for (const { id } of body.items ?? [])
          texts.push(JSON.stringify((await gateway.http("GET", `/v1/invocations/${id}`)).body));
      next = body.next == null ? null : `${path}&after=${encodeURIComponent(body.next)}`;
    }
  }
  return texts.join("\n");
}

async function checkFault(
  gateway: TestGateway,
  { fail, repair }: { fail: () => void; repair: () => void },
): Promise<void> {
  const folder = writePluginFolder({
    package_id: "acme/echo",
    entrypoint: ["node", "./bin/plugin.mjs"],
    files: { "bin/plugin.mjs": vaiProgram("acme/echo", ECHO) },
    exports: [{ id: "echo", effect_class: "read_only", default_timeout_ms: 60_000 }],
  });
  await installAndBind(gateway, folder, ["echo"], { class: "worker" });
  const before = await gateway.http("PUT", "/v1/secrets/before", { value: "x" });
  expect(before.status).toBeLessThan(300);
  fail();
  const written = await writeAll(gateway, "full");
  const refused = written.filter(({ status }) => status >= 500);
  expect(refused.length, JSON.stringify(written.slice(-5))).toBe(REFUSALS);
  // A failing disk is never the caller's mistake.
  expect(written.filter(({ status }) => status >= 300 && status < 500)).toEqual([]);
  expect(new Set(refused.map(({ kind }) => kind))).toEqual(new Set(Object.keys(KINDS)));
  expect(new Set(refused.map(({ code }) => code))).toEqual(new Set(["store.unavailable"]));
  expect((await gateway.http("GET", "/healthz")).status).toBe(200);
  repair();
  await eventually(
    async () =>
      (await gateway.http("POST", "/v1/invocations?wait=20", { export_id: "echo", input: {} })).status ===
      200,
    60_000,
    "a call succeeds again",
  );
  const check = async (running: TestGateway) => {
    const names = await readStoredRecords(running);
    const wrong = written.filter(({ name, status }) => names.includes(`"${name}"`) !== status < 300);
    expect(wrong).toEqual([]);
    expect(names).toContain('"before"');
  };
  await check(gateway);
  const { code, stdout } = await gateway.cli("doctor", "--json");
  expect(code, stdout).toBeLessThan(2);
  await gateway.stop();
  const again = await startTestGateway({ home: gateway.home });
  onTestFinished(() => again.dispose());
  await check(again);
}

/** A separate file system, unmounted when the test has ended. Null if this user may not mount. */
function mountDisk(megabytes: number): string | null {
  const disk = mkdtempSync(join(tmpdir(), "backplane-full-"));
  try {
    const options = `size=${megabytes}m,mode=0700`;
    execFileSync("mount", ["-t", "tmpfs", "-o", options, "tmpfs", disk], { stdio: "pipe" });
  } catch {
    rmSync(disk, { recursive: true });
    return null;
  }
  onTestFinished(() => {
    execFileSync("umount", ["--lazy", disk]);
    rmSync(disk, { recursive: true, force: true });
  });
  return disk;
}

/** Fills the disk except for `left` bytes. */
function fillDisk(filler: string, left = 0): void {
  const file = openSync(filler, "w");
  try {
    for (const size of [1 << 20, 4096]) {
      try {
        for (;;) writeSync(file, Buffer.alloc(size));
      } catch (error) {
        expect((error as NodeJS.ErrnoException).code).toBe("ENOSPC");
      }
    }
    ftruncateSync(file, Math.max(0, fstatSync(file).size - left));
  } finally {
    closeSync(file);
  }
}

verifies(
  "fault.disk",
  "refuses writes on a full disk with 5xx, keeps what it acknowledged, and recovers without a restart",
  async ({ skip }) => {
    const disk = mountDisk(64);
    if (disk === null) return skip("Mounting a small file system needs root.");
    const gateway = await startTestGateway({ home: join(disk, "home") });
    onTestFinished(async () => void (await gateway.stop()));
    const filler = join(disk, "filler");
    await checkFault(gateway, {
      fail() {
        fillDisk(filler);
      },
      repair: () => rmSync(filler),
    });
  },
  180_000,
);

verifies(
  "fault.disk",
  "refuses writes that fail on the disk with 5xx, keeps what it acknowledged, and recovers without a restart",
  async ({ skip }) => {
    const disk = createFailingDisk();
    if (disk === null) return skip("Simulating failing writes needs a C compiler.");
    const gateway = await startTestGateway({ env: disk.env });
    onTestFinished(async () => void (await gateway.stop()));
    onTestFinished(() => disk.repair());
    await checkFault(gateway, { fail: () => disk.fail("EIO", gateway.home), repair: () => disk.repair() });
  },
  180_000,
);

const MAKE_FILE = `async ({ body }) => {
  const fs = await import("node:fs");
  const { randomBytes } = await import("node:crypto");
  fs.writeFileSync(body.context.scratch_dir + "/out.bin", randomBytes(body.input.bytes));
  return { status: "succeeded", result: { content: [], structured_output: { transport: "artifact", path: "out.bin" } } };
}`;
const FILE_BYTES = 6_000_000;

verifies(
  "fault.disk",
  "refuses packages, files of calls and backups that do not fit, leaves no part of them, and recovers",
  async ({ skip }) => {
    const disk = mountDisk(128);
    if (disk === null) return skip("Mounting a small file system needs root.");
    const home = join(disk, "home");
    const gateway = await startTestGateway({ home });
    onTestFinished(async () => void (await gateway.stop()));
    const pluginFolder = (package_id: string, files: Record<string, string> = {}) =>
      writePluginFolder({
        package_id,
        entrypoint: ["node", "./bin/plugin.mjs"],
        files: { "bin/plugin.mjs": vaiProgram(package_id, MAKE_FILE), ...files },
        exports: [{ id: "make", extra: '[exports.permissions]\nfilesystem = "scratch"' }],
      });
    await installAndBind(gateway, pluginFolder("acme/files"), ["make"], { class: "isolated" });
    const large = pluginFolder("acme/large", { "assets/data.txt": "x".repeat(FILE_BYTES) });
    const install = () => gateway.http("POST", "/v1/plugin-packages", { source: { folder: large } });
    const call = () =>
      gateway.http<{ status: string; error: { code: string } | null }>("POST", "/v1/invocations?wait=60", {
        export_id: "make",
        input: { bytes: FILE_BYTES },
      });
    const backup = () => gateway.cli("backup", join(disk, "backup.tar.gz"));
    const leftovers = () => [
      ...readdirSync(disk).filter((name) => !["home", "filler"].includes(name)),
      ...readdirSync(join(home, "blobs", "tmp")),
      ...readdirSync(join(home, "blobs", "artifacts", "tmp")),
      ...readdirSync(join(home, "scratch")),
    ];
    const packages = async () => JSON.stringify((await gateway.http("GET", "/v1/plugin-packages")).body);

    // A backup contains the files of calls, which do not compress.
    expect((await call()).body).toMatchObject({ status: "succeeded" });
    const filler = join(disk, "filler");
    // The store still has room, and only larger writes fail.
    fillDisk(filler, 4 << 20);
    const refused = await install();
    expect(refused.status, JSON.stringify(refused.body)).toBeGreaterThanOrEqual(500);
    expect(refused.body).toMatchObject({
      error: {
        code: "store.unavailable",
        message: "There is no space left on the disk of the gateway's home (blobs).",
        details: { fix: "Free space on that disk, then try again." },
      },
    });
    expect(await packages()).not.toContain("acme/large");
    const failed = await call();
    expect(failed.body, JSON.stringify(failed.body)).toMatchObject({
      status: "failed",
      error: { code: "store.unavailable" },
    });
    const failed_backup = await backup();
    expect(failed_backup.code, failed_backup.stdout + failed_backup.stderr).not.toBe(0);
    expect(failed_backup.stderr).toContain(`There is no space left on the disk of ${disk}`);
    expect(leftovers()).toEqual([]);

    rmSync(filler);
    expect((await install()).status).toBe(201);
    expect(await packages()).toContain("acme/large");
    expect((await call()).body).toMatchObject({ status: "succeeded", error: null });
    const done = await backup();
    expect(done.code, done.stderr).toBe(0);
    expect(leftovers()).toEqual(["backup.tar.gz"]);
  },
  180_000,
);

interface Attempt {
  status: number;
  body: { status?: string; error?: { code: string; message: string } | null };
}

/**
 * Repeats the operation with a disk that fails after 0, `step`, 2 · `step` … writes until none of its writes fails. Failed
 * attempts must name the disk and leave no temporary files. Returns how many attempts had a failing write.
 */
async function failEachWrite(
  disk: FailingDisk,
  { home, error, step }: { home: string; error: DiskErrno; step: number },
  run: () => Promise<Attempt>,
): Promise<number> {
  for (let allowed = 0; ; allowed += step) {
    disk.fail(error, home, allowed);
    // The gateway repeats the write of a call's end until it succeeds, so the disk must work again while the client waits,
    // but only after a write has failed: however slow the machine is, every write of the operation is counted.
    let failing_since: number | null = null;
    const watch = setInterval(() => {
      if (disk.countWrites() > allowed) failing_since ??= performance.now();
      if (failing_since !== null && performance.now() - failing_since > 300) disk.repair();
    }, 20);
    const { status, body } = await run();
    clearInterval(watch);
    const passed = disk.countWrites() <= allowed;
    disk.repair();
    const failure_context = `${error} after ${allowed} writes: ${status} ${JSON.stringify(body).slice(0, 400)}`;
    if (body.error != null) {
      expect(body.error.code, failure_context).toBe("store.unavailable");
      expect(body.error.message, failure_context).toMatch(/the disk of|The disk of|The disk quota of/);
      expect(body.error.message, failure_context).not.toContain(home);
    } else expect(status, failure_context).toBeLessThan(300);
    // The anchor of the audit log is written soon after the response, through a file beside it.
    await expect.poll(() => temporaryFiles(home), { message: failure_context }).toEqual([]);
    if (passed) return allowed / step;
  }
}

/** Temporary files and folders, which exist only while an operation is in progress. */
function temporaryFiles(home: string): string[] {
  return ["blobs/tmp", "blobs/artifacts/tmp", "scratch", "."].flatMap((folder) =>
    readdirSync(join(home, folder))
      .filter((name) => folder !== "." || /\.(?:new|part|partial|restoring)$/.test(name))
      .map((name) => join(folder, name)),
  );
}

/** The audit export may contain partially written lines, but every entry is complete on exactly one line. */
function exportedEntries(file: string): number[] {
  return readFileSync(file, "utf8")
    .split("\n")
    .flatMap((line) => {
      try {
        return [(JSON.parse(line) as { seq: number }).seq];
      } catch {
        return [];
      }
    });
}

verifies(
  "fault.disk",
  "names the disk if any write of an installation, call, trusted folder or key rotation fails, and leaves no temporary files",
  async ({ skip }) => {
    const disk = createFailingDisk();
    if (disk === null) return skip("Simulating failing writes needs a C compiler.");
    const home = mkdtempSync(join(tmpdir(), "backplane-home-"));
    writeFileSync(join(home, "backplane.toml"), '[audit]\nexport = "audit.jsonl"\n', { mode: 0o600 });
    const gateway = await startTestGateway({ home, env: disk.env });
    onTestFinished(() => gateway.dispose());
    const pluginFolder = (package_id: string) =>
      writePluginFolder({
        package_id,
        entrypoint: ["node", "./bin/plugin.mjs"],
        files: { "bin/plugin.mjs": vaiProgram(package_id, MAKE_FILE) },
        exports: [{ id: "make", extra: '[exports.permissions]\nfilesystem = "scratch"' }],
      });
    await installAndBind(gateway, pluginFolder("acme/files"), ["make"], { class: "isolated" });
    await gateway.http("PUT", "/v1/secrets/before", { value: "x" });
    const post = (path: string, body: object) => gateway.http<Attempt["body"]>("POST", path, body);

    const errors: [DiskErrno, number][] = [
      ["EIO", 1],
      ["EDQUOT", 5],
      ["ENOSPC", 7],
    ];
    for (const [error, step] of errors) {
      const failEach = (run: () => Promise<Attempt>) => failEachWrite(disk, { home, error, step }, run);
      const name = error.toLowerCase();
      const folder = pluginFolder(`acme/${name}`);
      expect(await failEach(() => post("/v1/plugin-packages", { source: { folder } }))).toBeGreaterThan(5);
      const input = { bytes: 50_000 };
      expect(
        await failEach(() => post("/v1/invocations?wait=30", { export_id: "make", input })),
      ).toBeGreaterThan(2);
      const path = pluginFolder(`acme/trusted-${name}`);
      expect(await failEach(() => post("/v1/workspaces", { path, kind: "plugin" }))).toBeGreaterThan(5);
      expect(await failEach(() => post("/v1/secret-keys", {}))).toBeGreaterThan(2);
    }
    const { stdout } = await gateway.cli("plugin", "list", "--json");
    for (const [error] of errors) expect(stdout).toContain(`acme/${error.toLowerCase()}`);
    expect((await gateway.http("GET", "/healthz")).status).toBe(200);
    disk.fail("EIO", home);
    const from = performance.now();
    expect(await gateway.stop(), gateway.log().slice(-2_000)).toBe(0);
    expect(performance.now() - from).toBeLessThan(30_000);
    disk.repair();

    const again = await startTestGateway({ home });
    onTestFinished(async () => void (await again.stop()));
    expect((await again.http("GET", "/v1/audit/verify")).body).toMatchObject({ status: "ok" });
    const doctor = await again.cli("doctor", "--json");
    expect(doctor.code, doctor.stdout).toBeLessThan(2);
    await again.stop();
    const seqs = exportedEntries(join(home, "audit.jsonl"));
    expect(seqs).toEqual(seqs.map((_, index) => index + 1));
  },
  300_000,
);

verifies(
  "fault.disk",
  "adds and removes no files when backups, checks and restores hit a failing disk, and reports the disk",
  async ({ skip }) => {
    const disk = createFailingDisk();
    if (disk === null) return skip("Simulating failing writes needs a C compiler.");
    const dir = mkdtempSync(join(tmpdir(), "backplane-commands-"));
    onTestFinished(() => rmSync(dir, { recursive: true, force: true }));
    const home = join(dir, "home");
    const gateway = await startTestGateway({ home, env: disk.env });
    onTestFinished(async () => void (await gateway.stop()));
    await gateway.http("PUT", "/v1/secrets/kept", { value: "x" });
    expect((await gateway.cli("store", "backup", join(dir, "store.backup"))).code).toBe(0);
    expect((await gateway.cli("backup", join(dir, "home.tar.gz"))).code).toBe(0);
    await gateway.stop();
    // SQLite removes the journal and the log of a file when it closes the file, if it can.
    const files = () =>
      [...readdirSync(dir), ...readdirSync(home)]
        .filter((name) => !/-(?:journal|wal|shm)$/.test(name))
        .sort();
    const before = files();

    const commands: [error: DiskErrno, allowed: number, args: string[]][] = [
      ["ENOSPC", 3, ["store", "backup", join(dir, "another.backup")]],
      ["EIO", 3, ["backup", join(dir, "another.tar.gz")]],
      ["ENOSPC", 12, ["backup", join(dir, "another.tar.gz")]],
      ["ENOSPC", 4, ["store", "check"]],
      ["ENOSPC", 4, ["store", "restore", join(dir, "store.backup"), "--yes"]],
      ["EDQUOT", 8, ["restore", join(dir, "home.tar.gz"), "--force", "--yes"]],
    ];
    for (const [error, allowed, args] of commands) {
      disk.fail(error, dir, allowed);
      const { code, stdout, stderr } = await gateway.cli(...args);
      const write_count = disk.countWrites();
      disk.repair();
      const failure_context = `${error} ${args.join(" ")} (${write_count} writes): ${code} ${stdout}${stderr}`;
      expect(code, failure_context).not.toBe(0);
      expect(stderr, failure_context).toMatch(/disk|space/);
      expect(stderr, failure_context).not.toMatch(/damaged|internal|at file:/);
      expect(files(), failure_context).toEqual(before);
    }
    const again = await startTestGateway({ home });
    onTestFinished(() => again.dispose());
    expect((await again.cli("secret", "list", "--json")).stdout).toContain('"kept"');
  },
  180_000,
);
