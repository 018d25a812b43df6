/** Files of the gateway on a disk that is full or writes only a part of the data. */
import { execFileSync, spawnSync } from "node:child_process";
import {
  mkdirSync,
  mkdtempSync,
  openSync,
  readdirSync,
  readFileSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { afterEach, beforeEach, expect } from "vitest";
import { verifies } from "../../../test/support/verifies.ts";
import { createArchive } from "../src/backup/archive.ts";
import { openAuditExport } from "../src/home/audit-files.ts";
import { createRotatingLog } from "../src/host/log.ts";

let dir: string;
beforeEach(() => {
  dir = mkdtempSync(join(tmpdir(), "bp-full-"));
});
afterEach(() => rmSync(dir, { recursive: true, force: true }));

const gatewayFile = (path: string) => resolve("packages/gateway", path);
const CONDITION = "--conditions=backplane-source";

verifies("fault.disk", "detects a partial write of a key, an audit export or a restored file", async () => {
  mkdirSync(join(dir, "to"));
  writeFileSync(join(dir, "restored"), Buffer.alloc(10_000));
  const archive = createArchive(join(dir, "archive"));
  await archive.add("restored", join(dir, "restored"));
  await archive.finish({
    format: 1,
    created_at: "2026-01-01T00:00:00.000Z",
    version: "0.1.0",
    owner: process.getuid?.() ?? 0,
    store: { kind: "sqlite", schema_version: 1, tables: [] },
    keys: [],
    credentials: false,
  });
  // The limit of the shell is in blocks of 512 bytes; SIGXFSZ stays ignored across exec.
  const with_file_limit = 'trap "" XFSZ; ulimit -S -f 16; exec "$0" "$@"';
  const command = [process.execPath, CONDITION, gatewayFile("test/fixtures/partial-writes.ts"), dir];
  const outcomes = JSON.parse(
    execFileSync("/bin/sh", ["-c", with_file_limit, ...command], { encoding: "utf8" }),
  ) as object;
  expect(outcomes).toEqual({ key: "config.invalid", audit: "EFBIG", audit_last: "2", restore: "EFBIG" });
  expect(readFileSync(join(dir, "secret.key"), "utf8")).toMatch(/^(?:k\d+:[0-9a-f]{64}\n){118}$/);
  expect(readdirSync(dir).sort()).toEqual(["archive", "audit.jsonl", "restored", "secret.key", "to"]);
});

verifies(
  "fault.disk",
  "reports the audit export whose disk is full, and does not treat its entries as exported",
  () => {
    const sink = openAuditExport(dir, "/dev/full");
    expect(() => sink.append([{ seq: 1, hash: "h" } as never])).toThrow(
      expect.objectContaining({
        code: "store.unavailable",
        message: "There is no space left on the disk of the audit export /dev/full.",
      }),
    );
    expect(sink.last()).toBeNull();
  },
);

verifies("fault.disk", "keeps running when the log is on a full disk", () => {
  const program = `
    const { createLogger } = await import(${JSON.stringify(gatewayFile("src/host/log.ts"))});
    const log = createLogger("info");
    for (let n = 0; n < 1000; n++) log.info({ text: "x".repeat(1000) }, "a line");
    setTimeout(() => process.stdout.write("running"), 20);`;
  const { stdout, status } = spawnSync(process.execPath, [CONDITION, "--input-type=module", "-e", program], {
    stdio: ["ignore", "pipe", openSync("/dev/full", "w")],
    encoding: "utf8",
  });
  expect([stdout, status]).toEqual(["running", 0]);
});

verifies("fault.disk", "keeps the rotated logs when there is no space for another one", () => {
  const path = join(dir, "gateway.log");
  const log = createRotatingLog(openSync(path, "a"), { path, max_bytes: 100, files: 3 });
  const write = (line: string) => log.write(`${line.padEnd(79, ".")}\n`);
  for (const line of ["1", "2", "3"]) write(line);
  const readRotated = () => [1, 2, 3].map((n) => readFileSync(`${path}.${n}`, "utf8")[0]);
  for (let n = 0; n < 5; n++) {
    symlinkSync("/dev/full", `${path}.new`);
    write("lost");
  }
  write("4");
  write("5");
  expect(readRotated()).toEqual(["4", "3", "2"]);
});
