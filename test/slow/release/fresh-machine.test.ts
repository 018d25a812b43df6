/**
 * `npm ci && npm start` and the README's first call on a machine that has Node and npm and nothing else: no
 * bubblewrap, no compiler, no Python, no database. bwrap simulates that machine and is not visible inside it.
 */
import { execFileSync, spawnSync } from "node:child_process";
import {
  chmodSync,
  cpSync,
  existsSync,
  lchownSync,
  lstatSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readlinkSync,
  realpathSync,
  rmSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { delimiter, dirname, join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import { verifies } from "../../support/verifies.ts";

const isRoot = process.getuid!() === 0;
const ORDINARY_UID = 1000;
/** The programs that npm and the README's commands call besides Node. */
const PROGRAMS = ["sh", "env", "cat", "ls", "curl"];
const ABSENT = ["bwrap", "cc", "gcc", "clang", "musl-gcc", "python3", "initdb", "chromium", "java", "git"];

let folder: string;
beforeAll(() => {
  folder = mkdtempSync(join(tmpdir(), "backplane-fresh-"));
  chmodSync(folder, 0o755);
  mkdirSync(join(folder, "cache"));
});
afterAll(() => rmSync(folder, { recursive: true, force: true }));

/** Finds a program on the PATH outside node_modules, where npm scripts find the programs of this project first. */
function findOnPath(program: string): string {
  const folders = (process.env.PATH ?? "").split(delimiter).filter((path) => !path.includes("node_modules"));
  return realpathSync(folders.map((path) => join(path, program)).find((path) => existsSync(path))!);
}

/** Returns the arguments of bwrap, and writes the user database that is mounted at /etc. */
function bwrapArguments(): string[] {
  const etc = join(folder, "etc");
  mkdirSync(etc, { recursive: true });
  writeFileSync(
    join(etc, "passwd"),
    `root:x:0:0:root:/root:/bin/sh\nuser:x:${ORDINARY_UID}:${ORDINARY_UID}:user:/home/user:/bin/sh\n`,
  );
  writeFileSync(join(etc, "group"), `root:x:0:\nuser:x:${ORDINARY_UID}:\n`);
  const links = ["/bin", "/sbin", "/lib", "/lib32", "/lib64"].filter((path) => existsSync(path));
  const npm = dirname(dirname(findOnPath("npm")));
  return [
    "--ro-bind",
    "/usr",
    "/usr",
    "--tmpfs",
    "/usr/bin",
    "--tmpfs",
    "/usr/sbin",
    "--tmpfs",
    "/usr/local",
    ...links.flatMap((path) =>
      lstatSync(path).isSymbolicLink() ? ["--symlink", readlinkSync(path), path] : ["--ro-bind", path, path],
    ),
    "--ro-bind",
    process.execPath,
    "/usr/bin/node",
    "--ro-bind",
    npm,
    "/usr/local/npm",
    ...["npm", "npx"].flatMap((name) => ["--symlink", `../local/npm/bin/${name}-cli.js`, `/usr/bin/${name}`]),
    ...PROGRAMS.flatMap((name) => ["--ro-bind-try", findOnPath(name), `/usr/bin/${name}`]),
    "--ro-bind",
    etc,
    "/etc",
    "--dev-bind",
    "/dev",
    "/dev",
    "--bind",
    "/sys",
    "/sys",
    // bwrap's own --proc would be masked, as in a container, where an ordinary user cannot mount another one.
    "--dev-bind",
    "/proc",
    "/proc",
    "--perms",
    "1777",
    "--tmpfs",
    "/tmp",
    "--perms",
    "0755",
    "--dir",
    "/home",
  ];
}

/** Copies the files that the network needs into the folder that replaces /etc. */
function copyNetworkFiles(): void {
  for (const name of ["resolv.conf", "hosts", "nsswitch.conf", "ssl", "ca-certificates", "ld.so.cache"]) {
    const from = join("/etc", name);
    if (existsSync(from)) cpSync(from, join(folder, "etc", name), { recursive: true, dereference: true });
  }
}

/** Copies the sources alone, as a clone does. */
function cloneTo(target: string): void {
  const skipped = /(?:^|\/)(?:node_modules|dist|reports|\.git|[^/]*\.tsbuildinfo)$/;
  cpSync(".", target, { recursive: true, filter: (path) => !skipped.test(path) });
}

function chownRecursive(path: string, uid: number): void {
  lchownSync(path, uid, uid);
  if (!lstatSync(path).isDirectory()) return;
  for (const name of readdirSync(path)) chownRecursive(join(path, name), uid);
}

/** Runs a shell script on the fresh machine as this user. */
function run(uid: number, script: string): { status: number | null; output: string } {
  const home = join(folder, `home-${uid}`);
  const project = join(home, "backplane");
  if (!existsSync(project)) {
    mkdirSync(home);
    cloneTo(project);
  }
  const args = [
    ...bwrapArguments(),
    "--bind",
    home,
    "/home/user",
    "--bind",
    join(folder, "cache"),
    "/home/cache",
  ];
  copyNetworkFiles();
  for (const path of [home, join(folder, "cache")]) chownRecursive(path, uid);
  // The process becomes this user inside bwrap, so that it has no privileges on the machine, as after a login.
  const become = `process.setgroups?.([]); process.setgid(${uid}); process.setuid(${uid});`;
  const start = `const { status, error } = require("node:child_process").spawnSync("/bin/sh", ["-e", "-c", process.argv[1]], { stdio: "inherit", cwd: "/home/user/backplane" }); if (error) console.error(error); process.exit(status ?? 1);`;
  const code = uid === 0 ? start : `${become}${start}`;
  const registry = execFileSync("npm", ["config", "get", "registry"], { encoding: "utf8" }).trim();
  const env = {
    PATH: "/usr/bin:/bin",
    HOME: "/home/user",
    npm_config_cache: "/home/cache",
    npm_config_registry: registry,
  };
  const { status, stdout, stderr } = spawnSync(
    "/usr/bin/bwrap",
    [...args, "--", "/usr/bin/node", "-e", code, script],
    { env, encoding: "utf8", maxBuffer: 64 * 1024 * 1024 },
  );
  return { status, output: `${stdout}${stderr}` };
}

test("the machine has none of the programs that the sandbox or the tests could use", () => {
  const { output } = run(0, "ls /usr/bin /usr/sbin /usr/local");
  expect(output.split("\n")).toEqual(expect.arrayContaining(["node", "npm", "sh"]));
  for (const name of ABSENT) expect(output.split("\n")).not.toContain(name);
});

for (const [name, uid] of [
  ["root", 0],
  ["an ordinary user", ORDINARY_UID],
] as const) {
  verifies("run.fresh", `npm ci, npm start and the README's first call work for ${name}`, ({ skip }) => {
    if (!isRoot) skip("Only root can simulate another machine with bwrap.");
    const { status, output } = run(
      uid,
      "npm ci --no-fund --no-audit; npm run --silent ci:start; npx backplane doctor --json",
    );
    expect(output).toContain("healthy, the README's first call ran in the sandbox, stopped");
    expect(output).toContain("isolated and worker exports run confined: embedded sandbox-init ");
    expect([0, 1]).toContain(status);
  });
}
