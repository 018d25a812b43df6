/**
 * Installs the system packages that the tests need, if that is possible without a prompt (root on Debian). Otherwise
 * the script prints the install command and fails. `npm start` needs no system package.
 *
 *   node scripts/prepare-system.ts          for the tests
 *   node scripts/prepare-system.ts slow     also for the slow tests: compilers for all architectures, a registry
 */
import { execFileSync } from "node:child_process";
import { existsSync, readdirSync } from "node:fs";
import { delimiter, join } from "node:path";

interface SystemRequirement {
  what: string;
  apt: string[];
  /** The Debian architecture of the packages if it is not that of this machine; it has to be enabled first. */
  architecture?: string;
  isInstalled(): boolean;
}

/** The compilers that build a changed sandbox-init. */
const COMPILERS = ["/usr/bin/musl-gcc", "/usr/bin/cc", "/usr/bin/gcc", "/usr/bin/clang"];
const BWRAP = ["/usr/bin/bwrap", "/usr/local/bin/bwrap"];
const APT_GET = "/usr/bin/apt-get";
const DPKG = "/usr/bin/dpkg";
/** Limits how long apt waits on a machine without a network. */
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

const isOnPath = (program: string) =>
  (process.env.PATH ?? "").split(delimiter).some((folder) => existsSync(join(folder, program)));

const hasDebianPostgres = () => {
  const root = "/usr/lib/postgresql";
  return (
    existsSync(root) && readdirSync(root).some((version) => existsSync(join(root, version, "bin/initdb")))
  );
};

/** A compiler prints the path of its library, or the bare name if the library is missing. */
function compilesStatically(compiler: string): boolean {
  try {
    const output = execFileSync(compiler, ["-print-file-name=libc.a"], {
      encoding: "utf8",
      stdio: ["ignore", "pipe", "ignore"],
    });
    return output.trim() !== "libc.a";
  } catch {
    return false;
  }
}

const TEST_REQUIREMENTS: SystemRequirement[] = [
  {
    what: "PostgreSQL server (initdb)",
    apt: ["postgresql"],
    isInstalled: () => isOnPath("initdb") || hasDebianPostgres(),
  },
  {
    what: "python3",
    apt: ["python3"],
    isInstalled: () => existsSync("/usr/bin/python3") || isOnPath("python3"),
  },
  {
    what: "pip of /usr/bin/python3",
    apt: ["python3-pip"],
    isInstalled: () => existsSync("/usr/lib/python3/dist-packages/pip"),
  },
  {
    what: "Chromium and its headless shell",
    apt: ["chromium", "chromium-headless-shell"],
    isInstalled: () => isOnPath("chromium") && isOnPath("chromium-headless-shell"),
  },
  {
    what: "bubblewrap (bwrap), the fallback of the sandbox",
    apt: ["bubblewrap"],
    isInstalled: () => BWRAP.some((file) => existsSync(file)),
  },
  {
    what: "a C compiler (cc) with a static C library (libc.a)",
    // Both packages are listed, because apt installs gcc without the library if recommended packages are disabled.
    apt: ["gcc", "libc6-dev"],
    isInstalled: () => COMPILERS.some((file) => existsSync(file) && compilesStatically(file)),
  },
];

/** The toolchain of the shipped programs (scripts/sandbox-init/toolchain.ts), and an emulator to start them. */
const SLOW_REQUIREMENTS: SystemRequirement[] = [
  {
    what: "musl for x64",
    apt: ["musl-tools"],
    isInstalled: () => existsSync("/usr/lib/x86_64-linux-musl/libc.a"),
  },
  {
    what: "gcc for arm64",
    apt: ["gcc-aarch64-linux-gnu", "linux-libc-dev-arm64-cross"],
    isInstalled: () =>
      existsSync("/usr/bin/aarch64-linux-gnu-gcc") && existsSync("/usr/aarch64-linux-gnu/include/asm"),
  },
  {
    what: "musl for arm64",
    apt: ["musl-dev:arm64"],
    architecture: "arm64",
    isInstalled: () => existsSync("/usr/lib/aarch64-linux-musl/libc.a"),
  },
  { what: "docker-registry", apt: ["docker-registry"], isInstalled: () => isOnPath("docker-registry") },
  { what: "skopeo", apt: ["skopeo"], isInstalled: () => isOnPath("skopeo") },
  { what: "qemu for arm64", apt: ["qemu-user"], isInstalled: () => isOnPath("qemu-aarch64") },
];

const findMissing = (requirements: readonly SystemRequirement[]) =>
  requirements.filter((requirement) => !requirement.isInstalled());
const listOf = (requirements: readonly SystemRequirement[]) =>
  requirements.map((requirement) => requirement.what).join(", ");
const architecturesOf = (requirements: readonly SystemRequirement[]) =>
  requirements.flatMap((requirement) => requirement.architecture ?? []);
const packagesOf = (requirements: readonly SystemRequirement[]) =>
  requirements.flatMap((requirement) => requirement.apt);

/** Null on a system without apt, whose install command is not known. */
function commandFor(requirements: readonly SystemRequirement[]): string | null {
  if (!existsSync(APT_GET)) return null;
  const foreign = architecturesOf(requirements).map((name) => `dpkg --add-architecture ${name} && `);
  return `${foreign.join("")}apt-get update && apt-get install -y --no-install-recommends ${packagesOf(requirements).join(" ")}`;
}

function canInstall(): boolean {
  return process.getuid?.() === 0 && existsSync(APT_GET);
}

/** Throws if apt fails, after apt has printed its own error to stderr. */
function install(requirements: readonly SystemRequirement[]): void {
  console.error(`installing for the tests: ${packagesOf(requirements).join(", ")}`);
  const env = { ...process.env, DEBIAN_FRONTEND: "noninteractive" };
  const run = (...args: string[]) =>
    execFileSync(APT_GET, [...APT_OPTIONS, ...args], {
      stdio: ["ignore", "ignore", "inherit"],
      env,
      timeout: APT_MS,
    });
  for (const name of architecturesOf(requirements)) execFileSync(DPKG, ["--add-architecture", name]);
  run("update");
  run("install", "-y", "--no-install-recommends", ...packagesOf(requirements));
}

function prepare(requirements: readonly SystemRequirement[]): number {
  const missing = findMissing(requirements);
  if (missing.length === 0) return 0;
  if (!canInstall()) {
    const command = commandFor(missing);
    console.error(`missing for the tests: ${listOf(missing)}`);
    if (command !== null) console.error(`fix: sudo sh -c '${command}'`);
    return 1;
  }
  install(missing);
  const still_missing = findMissing(requirements);
  for (const requirement of still_missing)
    console.error(`still missing after the installation: ${requirement.what}`);
  return still_missing.length === 0 ? 0 : 1;
}

process.exitCode = prepare(
  process.argv[2] === "slow" ? [...TEST_REQUIREMENTS, ...SLOW_REQUIREMENTS] : TEST_REQUIREMENTS,
);
