/** `npm start` on machines that lack what the sandbox needs; bubblewrap simulates such a machine. */
import { spawnSync } from "node:child_process";
import { chmodSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { afterEach, beforeEach, expect, test } from "vitest";
import { cleanEnvironment } from "./support/gateway.ts";

const SCRIPT = resolve("scripts/prepare-system.ts");
const root = process.getuid?.() === 0;
const REFUSED = "is refused with sandbox.unavailable";
const COMMAND = "apt-get update && apt-get install -y --no-install-recommends bubblewrap gcc libc6-dev";

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
  purpose?: "start";
}

/** Runs the program on this machine with a /usr/bin that contains only the given apt-get. */
function prepare({ apt, uid, env = {}, purpose }: Machine) {
  const shown: string[] = [];
  if (apt !== undefined) {
    const program = join(folder, "apt-get");
    writeFileSync(program, `#!${process.execPath}\n${apt}`, { mode: 0o755 });
    shown.push("--ro-bind", program, "/usr/bin/apt-get");
  }
  const user = uid === undefined ? [] : ["--unshare-user", "--uid", String(uid), "--gid", String(uid)];
  const args = [
    "--dev-bind",
    "/",
    "/",
    "--tmpfs",
    "/usr/bin",
    ...shown,
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
  const ran = spawnSync(process.execPath, [SCRIPT, "start"], { env, encoding: "utf8" });
  expect(ran).toMatchObject({ status: 0, stdout: "", stderr: "" });
});

test("tells an ordinary user the command to run and what is refused until then, and continues the start", () => {
  const { status, stdout, stderr } = prepare({ apt: "process.exit(9);", uid: 1_000, purpose: "start" });
  expect([status, stdout]).toEqual([0, ""]);
  expect(stderr.trim().split("\n")).toEqual([
    "The sandbox cannot be used yet. Missing on this machine: bubblewrap (bwrap), a C compiler (cc) with a static C library (libc.a).",
    `fix: sudo sh -c '${COMMAND}', then start the gateway again`,
    expect.stringContaining(REFUSED),
  ]);
});

test("tells a system without apt what is missing, and names no command that it lacks", () => {
  const { status, stderr } = prepare({ uid: 1_000, purpose: "start" });
  expect(status).toBe(0);
  expect(stderr).toContain("bubblewrap (bwrap)");
  expect(stderr).toContain("fix: install it with this system's package manager");
  expect(stderr).not.toContain("apt-get");
});

test("requires nothing when the sandbox is disabled", () => {
  const off = {
    apt: "process.exit(9);",
    uid: 1_000,
    env: { BACKPLANE_SANDBOX: "0" },
    purpose: "start",
  } as const;
  expect(prepare(off)).toEqual({ status: 0, stdout: "", stderr: "" });
});

test("refuses to run the tests on a machine that lacks something", () => {
  const { status, stderr } = prepare({ apt: "process.exit(9);", uid: 1_000 });
  expect(status).toBe(1);
  expect(stderr).toMatch(/^missing for the tests: .*bubblewrap/);
  expect(stderr).toMatch(/^fix: sudo sh -c 'apt-get update && .* bubblewrap gcc libc6-dev'$/m);
});

/** Installs what a real apt-get would: programs, and a compiler that finds its library. */
const INSTALLS = `const { appendFileSync, writeFileSync } = require("node:fs");
const args = process.argv.slice(2);
appendFileSync(process.env.APT_LOG, args.filter((arg) => !/^-|=/.test(arg)).join(" ") + "\\n");
if (args.includes("install")) {
  writeFileSync("/usr/bin/bwrap", "", { mode: 0o755 });
  writeFileSync("/usr/bin/cc", "#!" + process.execPath + "\\nconsole.log('/usr/lib/libc.a');", { mode: 0o755 });
}`;

test.runIf(root)(
  "installs the packages as root on Debian, including the C library that apt would leave out",
  () => {
    const log = join(folder, "apt.log");
    const { status, stderr } = prepare({ apt: INSTALLS, env: { APT_LOG: log }, purpose: "start" });
    expect({ status, stderr }).toEqual({
      status: 0,
      stderr: "installing for the sandbox: bubblewrap, gcc, libc6-dev\n",
    });
    expect(readFileSync(log, "utf8")).toBe("update\ninstall bubblewrap gcc libc6-dev\n");
  },
);

test.runIf(root)(
  "reports a failed installation, for example without a network, and continues the start",
  () => {
    const apt = "console.error('E: Could not resolve deb.debian.org'); process.exit(100);";
    const { status, stderr } = prepare({ apt, purpose: "start" });
    expect(status).toBe(0);
    expect(stderr).toContain("E: Could not resolve deb.debian.org\nThe installation failed: ");
    expect(stderr).toContain(`fix: sh -c '${COMMAND}', then start the gateway again`);
    expect(stderr).toContain(REFUSED);
  },
);
