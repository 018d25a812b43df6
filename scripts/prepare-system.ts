/**
 * Installs what the tests, or the start command, need of the system: where that can be done without asking (root on
 * Debian), and otherwise it prints the one command.
 *
 *   node scripts/prepare-system.ts          for the tests; fails when something is missing
 *   node scripts/prepare-system.ts start    for `npm start`; says what the gateway refuses meanwhile, and never fails
 */
import { execFileSync } from "node:child_process";
import { existsSync, readdirSync } from "node:fs";
import { delimiter, join } from "node:path";

export interface Need {
  what: string;
  apt: string[];
  present(): boolean;
}

/** Where the gateway looks; a program elsewhere on the PATH does not help it. */
const COMPILERS = ["/usr/bin/musl-gcc", "/usr/bin/cc", "/usr/bin/gcc", "/usr/bin/clang"];
const BWRAP = ["/usr/bin/bwrap", "/usr/local/bin/bwrap"];
const APT_GET = "/usr/bin/apt-get";
/** A machine without a network is told so in seconds. */
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

/** A compiler knows where its library is, and answers with the bare name when there is none. */
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
    // Both, always: apt installs gcc without the library when recommended packages are left out.
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

/** Null where there is no apt: the pieces are named, and each system has its own command. */
function commandFor(needs: readonly Need[]): string | null {
  if (!existsSync(APT_GET)) return null;
  return `apt-get update && apt-get install -y --no-install-recommends ${packagesOf(needs).join(" ")}`;
}

function canInstall(): boolean {
  return process.getuid?.() === 0 && existsSync(APT_GET);
}

/** Throws when apt fails; its own words are on stderr then. */
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

/** The gateway starts in any case: what it refuses without a sandbox is the smaller part of it. */
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

/** Asked only where something is missing: a sandbox that is switched off, or was compiled earlier, needs nothing. */
async function needsSandbox(): Promise<boolean> {
  try {
    const { checkSystem, homeFolder, loadConfig } = await import("@backplane/gateway");
    const config = loadConfig({ home: homeFolder(undefined, process.env), env: process.env });
    if (!config.sandbox.enabled) return false;
    const sandbox = (await checkSystem(config)).find(({ name }) => name === "sandbox");
    return sandbox?.message.startsWith("isolated and worker exports are refused") !== false;
  } catch {
    // The start itself says what is wrong with the configuration.
    return true;
  }
}

if (import.meta.main) {
  if (process.argv[2] === "start") await prepareForStart();
  else process.exitCode = prepareForTests();
}
