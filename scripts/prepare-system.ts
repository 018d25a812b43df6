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

interface Need {
  what: string;
  apt: string[];
  /** An architecture of Debian other than this machine's, which has to be enabled first. */
  architecture?: string;
  present(): boolean;
}

/** The compilers that build a changed sandbox-init. */
const COMPILERS = ["/usr/bin/musl-gcc", "/usr/bin/cc", "/usr/bin/gcc", "/usr/bin/clang"];
const BWRAP = ["/usr/bin/bwrap", "/usr/local/bin/bwrap"];
const APT_GET = "/usr/bin/apt-get";
const DPKG = "/usr/bin/dpkg";
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

const TEST_NEEDS: Need[] = [
  {
    what: "PostgreSQL server (initdb)",
    apt: ["postgresql"],
    present: () => onPath("initdb") || debianPostgres(),
  },
  { what: "python3", apt: ["python3"], present: () => existsSync("/usr/bin/python3") || onPath("python3") },
  {
    what: "pip of /usr/bin/python3",
    apt: ["python3-pip"],
    present: () => existsSync("/usr/lib/python3/dist-packages/pip"),
  },
  {
    what: "Chromium and its headless shell",
    apt: ["chromium", "chromium-headless-shell"],
    present: () => onPath("chromium") && onPath("chromium-headless-shell"),
  },
  {
    what: "bubblewrap (bwrap), the fallback of the sandbox",
    apt: ["bubblewrap"],
    present: () => BWRAP.some((file) => existsSync(file)),
  },
  {
    what: "a C compiler (cc) with a static C library (libc.a)",
    // Both packages are always named: apt installs gcc without the library if recommended packages are
    // disabled.
    apt: ["gcc", "libc6-dev"],
    present: () => COMPILERS.some((file) => existsSync(file) && compilesStatically(file)),
  },
];

/** The toolchain of the shipped programs (scripts/sandbox-init/toolchain.ts), and an emulator to start them. */
const SLOW_NEEDS: Need[] = [
  {
    what: "musl for x64",
    apt: ["musl-tools"],
    present: () => existsSync("/usr/lib/x86_64-linux-musl/libc.a"),
  },
  {
    what: "gcc for arm64",
    apt: ["gcc-aarch64-linux-gnu", "linux-libc-dev-arm64-cross"],
    present: () =>
      existsSync("/usr/bin/aarch64-linux-gnu-gcc") && existsSync("/usr/aarch64-linux-gnu/include/asm"),
  },
  {
    what: "musl for arm64",
    apt: ["musl-dev:arm64"],
    architecture: "arm64",
    present: () => existsSync("/usr/lib/aarch64-linux-musl/libc.a"),
  },
  { what: "docker-registry", apt: ["docker-registry"], present: () => onPath("docker-registry") },
  { what: "skopeo", apt: ["skopeo"], present: () => onPath("skopeo") },
  { what: "qemu for arm64", apt: ["qemu-user"], present: () => onPath("qemu-aarch64") },
];

const missingOf = (needs: readonly Need[]) => needs.filter((need) => !need.present());
const listOf = (needs: readonly Need[]) => needs.map((need) => need.what).join(", ");
const architecturesOf = (needs: readonly Need[]) => needs.flatMap((need) => need.architecture ?? []);
const packagesOf = (needs: readonly Need[]) => needs.flatMap((need) => need.apt);

/** Null without apt, because each system has its own install command; the missing programs are listed anyway. */
function commandFor(needs: readonly Need[]): string | null {
  if (!existsSync(APT_GET)) return null;
  const foreign = architecturesOf(needs).map((name) => `dpkg --add-architecture ${name} && `);
  return `${foreign.join("")}apt-get update && apt-get install -y --no-install-recommends ${packagesOf(needs).join(" ")}`;
}

function canInstall(): boolean {
  return process.getuid?.() === 0 && existsSync(APT_GET);
}

/** Throws if apt fails, after apt has printed its own error to stderr. */
function install(needs: readonly Need[]): void {
  console.error(`installing for the tests: ${packagesOf(needs).join(", ")}`);
  const env = { ...process.env, DEBIAN_FRONTEND: "noninteractive" };
  const run = (...args: string[]) =>
    execFileSync(APT_GET, [...APT_OPTIONS, ...args], {
      stdio: ["ignore", "ignore", "inherit"],
      env,
      timeout: APT_MS,
    });
  for (const name of architecturesOf(needs)) execFileSync(DPKG, ["--add-architecture", name]);
  run("update");
  run("install", "-y", "--no-install-recommends", ...packagesOf(needs));
}

function prepare(needs: readonly Need[]): number {
  const missing = missingOf(needs);
  if (missing.length === 0) return 0;
  if (!canInstall()) {
    const command = commandFor(missing);
    console.error(`missing for the tests: ${listOf(missing)}`);
    if (command !== null) console.error(`fix: sudo sh -c '${command}'`);
    return 1;
  }
  install(missing);
  const still = missingOf(needs);
  for (const need of still) console.error(`still missing after the installation: ${need.what}`);
  return still.length === 0 ? 0 : 1;
}

process.exitCode = prepare(process.argv[2] === "slow" ? [...TEST_NEEDS, ...SLOW_NEEDS] : TEST_NEEDS);
