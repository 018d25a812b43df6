/** Runs prepare-system on machines without the programs that the tests need, simulated with bubblewrap. */
import { spawnSync } from "node:child_process";
import { chmodSync, existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { afterEach, beforeEach, expect, test } from "vitest";
import { cleanEnvironment } from "./support/gateway/gateway.ts";

const SCRIPT = resolve("scripts/prepare-system.ts");
/** The C library of another architecture, which the machine lacks as well. */
const FOREIGN = "/usr/lib/aarch64-linux-musl";
const root = process.getuid?.() === 0;

let folder: string;
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), "backplane-prepare-"));
  chmodSync(folder, 0o755);
});
afterEach(() => rmSync(folder, { recursive: true, force: true }));

interface Machine {
  /** The source of an apt-get in JavaScript; if absent, the machine has none. */
  apt?: string;
  uid?: number;
  env?: Record<string, string>;
  purpose?: "slow";
}

/** Runs the script on this machine with a /usr/bin that contains only `apt` as apt-get. */
function prepare({ apt, uid, env = {}, purpose }: Machine) {
  const apt_mount: string[] = [];
  if (apt !== undefined) {
    const program = join(folder, "apt-get");
    writeFileSync(program, `#!${process.execPath}\n${apt}`, { mode: 0o755 });
    apt_mount.push("--ro-bind", program, "/usr/bin/apt-get");
  }
  const hidden = existsSync(FOREIGN) ? ["--tmpfs", FOREIGN] : [];
  const user = uid === undefined ? [] : ["--unshare-user", "--uid", String(uid), "--gid", String(uid)];
  const args = [
    "--dev-bind",
    "/",
    "/",
    "--tmpfs",
    "/usr/bin",
    ...apt_mount,
    ...hidden,
    ...user,
    "--",
    process.execPath,
    SCRIPT,
  ];
  const { status, stdout, stderr } = spawnSync(
    "bwrap",
    [...args, ...(purpose === undefined ? [] : [purpose])],
    {
      env: cleanEnvironment({ BACKPLANE_HOME: join(folder, "home"), ...env }),
      encoding: "utf8",
    },
  );
  return { status, stdout, stderr };
}

test("prints nothing on a machine that has everything", () => {
  const env = cleanEnvironment({ BACKPLANE_HOME: join(folder, "home") });
  const result = spawnSync(process.execPath, [SCRIPT], { env, encoding: "utf8" });
  expect(result).toMatchObject({ status: 0, stdout: "", stderr: "" });
});

test("fails on a machine that lacks something, and prints the command that installs it", () => {
  const { status, stderr } = prepare({ apt: "process.exit(9);", uid: 1_000 });
  expect(status).toBe(1);
  expect(stderr).toMatch(/^missing for the tests: .*bubblewrap \(bwrap\)/);
  expect(stderr).toMatch(/^fix: sudo sh -c 'apt-get update && .* bubblewrap gcc libc6-dev'$/m);
});

test("names the packages of another architecture with the command that enables it", () => {
  const { status, stderr } = prepare({ apt: "process.exit(9);", uid: 1_000, purpose: "slow" });
  expect(status).toBe(1);
  expect(stderr).toMatch(
    /^fix: sudo sh -c 'dpkg --add-architecture arm64 && apt-get update && .* musl-dev:arm64 /m,
  );
});

test("lists what is missing on a system without apt and suggests no apt command", () => {
  const { status, stderr } = prepare({ uid: 1_000 });
  expect(status).toBe(1);
  expect(stderr).toContain("bubblewrap (bwrap)");
  expect(stderr).not.toContain("apt-get");
});

/** Records its arguments and installs nothing. */
const RECORDING_APT = `const { appendFileSync } = require("node:fs");
const args = process.argv.slice(2).filter((arg) => !/^-|=/.test(arg));
appendFileSync(process.env.APT_LOG, args.join(" ") + "\\n");`;

test.runIf(root)("installs the packages as root on Debian and reports what is still missing", () => {
  const log = join(folder, "apt.log");
  const { status, stderr } = prepare({ apt: RECORDING_APT, env: { APT_LOG: log } });
  expect(status).toBe(1);
  expect(stderr).toMatch(/^installing for the tests: .*bubblewrap, gcc, libc6-dev$/m);
  expect(stderr).toMatch(/^still missing after the installation: bubblewrap/m);
  expect(readFileSync(log, "utf8")).toMatch(/^update\ninstall .*bubblewrap gcc libc6-dev\n$/);
});
