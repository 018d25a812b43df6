/**
 * Installs the system packages that the tests or the start command need, if that is possible without a prompt
 * (root on Debian). Otherwise the script prints the install command.
 *
 *   node scripts/prepare-system.ts          for the tests; fails if a package is missing
 *   node scripts/prepare-system.ts start    for `npm start`; names the disabled features and never fails
 */
import { execFileSync } from "node:child_process";
import { existsSync, readdirSync } from "node:fs";
import { delimiter, join } from "node:path";

export interface Need {
  what: string;
  apt: string[];
  present(): boolean;
}

/** The folders that the gateway searches; a program elsewhere on the PATH is not used. */
const COMPILERS = ["/usr/bin/musl-gcc", "/usr/bin/cc", "/usr/bin/gcc", "/usr/bin/clang"];
const BWRAP = ["/usr/bin/bwrap", "/usr/local/bin/bwrap"];
const APT_GET = "/usr/bin/apt-get";
/** Bounds the wait for apt on a machine without a network. */
const APT_OPTIONS = [
  "-q",
  "-o",
  "Acquire::Retries=1",
  "-o",
  "Acquire::http::Timeout=20",
  "-o",
  "DPkg::Lock::Timeout=60",
];
const APT_MS = 600_000;

const onPath = (program: string) =>
  (process.env.PATH ?? "").split(delimiter).some((folder) => existsSync(join(folder, program)));

const debianPostgres = () => {
  const root = "/usr/lib/postgresql";
  return (
    existsSync(root) && readdirSync(root).some((version) => existsSync(join(root, version, "bin/initdb")))
  );
};

/** A compiler prints the path of its library, or the bare name if the library is missing. */
function compilesStatically(compiler: string): boolean {
  try {
    const answer = execFileSync(compiler, ["-print-file-name=libc.a"], {
      encoding: "utf8",
      stdio: ["ignore", "pipe", "ignore"],
    });
    return answer.trim() !== "libc.a";
  } catch {
    return false;
  }
}

export const SANDBOX_NEEDS: Need[] = [
  { what: "bubblewrap (bwrap)", apt: ["bubblewrap"], present: () => BWRAP.some((file) => existsSync(file)) },
  {
    what: "a C compiler (cc) with a static C library (libc.a)",
    // Both packages are always named: apt installs gcc without the library if recommended packages are
    // disabled.
    apt: ["gcc", "libc6-dev"],
    present: () => COMPILERS.some((file) => existsSync(file) && compilesStatically(file)),
  },
];

const TEST_NEEDS: Need[] = [
  {
    what: "PostgreSQL server (initdb)",
    apt: ["postgresql"],
    present: () => onPath("initdb") || debianPostgres(),
  },
  { what: "python3", apt: ["python3"], present: () => existsSync("/usr/bin/python3") || onPath("python3") },
  { what: "Chromium", apt: ["chromium"], present: () => onPath("chromium") },
  ...SANDBOX_NEEDS,
];

const missingOf = (needs: readonly Need[]) => needs.filter((need) => !need.present());
const listOf = (needs: readonly Need[]) => needs.map((need) => need.what).join(", ");
const packagesOf = (needs: readonly Need[]) => needs.flatMap((need) => need.apt);

/** Null without apt: the missing programs are named, because each system has its own install command. */
function commandFor(needs: readonly Need[]): string | null {
  if (!existsSync(APT_GET)) return null;
  return `apt-get update && apt-get install -y --no-install-recommends ${packagesOf(needs).join(" ")}`;
}

function canInstall(): boolean {
  return process.getuid?.() === 0 && existsSync(APT_GET);
}

/** Throws if apt fails, after apt has printed its own error to stderr. */
function install(needs: readonly Need[], purpose: string): void {
  console.error(`installing for ${purpose}: ${packagesOf(needs).join(", ")}`);
  const env = { ...process.env, DEBIAN_FRONTEND: "noninteractive" };
  const run = (...args: string[]) =>
    execFileSync(APT_GET, [...APT_OPTIONS, ...args], {
      stdio: ["ignore", "ignore", "inherit"],
      env,
      timeout: APT_MS,
    });
  run("update");
  run("install", "-y", "--no-install-recommends", ...packagesOf(needs));
}

function prepareForTests(): number {
  const missing = missingOf(TEST_NEEDS);
  if (missing.length === 0) return 0;
  if (!canInstall()) {
    const command = commandFor(missing);
    console.error(`missing for the tests: ${listOf(missing)}`);
    if (command !== null) console.error(`fix: sudo sh -c '${command}'`);
    return 1;
  }
  install(missing, "the tests");
  const still = missingOf(TEST_NEEDS);
  for (const need of still) console.error(`still missing after the installation: ${need.what}`);
  return still.length === 0 ? 0 : 1;
}

/** The gateway starts in any case, because most of its features work without a sandbox. */
async function prepareForStart(): Promise<void> {
  let missing = process.platform === "linux" ? missingOf(SANDBOX_NEEDS) : [];
  if (missing.length === 0 || !(await needsSandbox())) return;
  if (canInstall()) {
    try {
      install(missing, "the sandbox");
    } catch (error) {
      console.error(`The installation failed: ${(error as Error).message.split("\n", 1)[0]}`);
    }
    missing = missingOf(SANDBOX_NEEDS);
    if (missing.length === 0) return;
  }
  const command = commandFor(missing);
  const sudo = process.getuid?.() === 0 ? "sh" : "sudo sh";
  console.error(`The sandbox cannot be used yet. Missing on this machine: ${listOf(missing)}.`);
  console.error(
    command === null
      ? "fix: install it with this system's package manager, then start the gateway again"
      : `fix: ${sudo} -c '${command}', then start the gateway again`,
  );
  console.error(
    "Until then the gateway starts, and everything works but the programs of plugins: a call of an isolated or worker export (installed tools, hooks, MCP servers) is refused with sandbox.unavailable.",
  );
}

/** Checked only if something is missing: a disabled sandbox, or one compiled earlier, needs nothing. */
async function needsSandbox(): Promise<boolean> {
  try {
    const { checkSystem, homeFolder, loadConfig } = await import("@backplane/gateway");
    const config = loadConfig({ home: homeFolder(undefined, process.env), env: process.env });
    if (!config.sandbox.enabled) return false;
    const sandbox = (await checkSystem(config)).find(({ name }) => name === "sandbox");
    return sandbox?.message.startsWith("isolated and worker exports are refused") !== false;
  } catch {
    // The start command reports errors of the configuration itself.
    return true;
  }
}

if (import.meta.main) {
  if (process.argv[2] === "start") await prepareForStart();
  else process.exitCode = prepareForTests();
}
