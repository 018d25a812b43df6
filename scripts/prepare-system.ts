/**
 * What the tests need of the system: PostgreSQL's server programs, python3, a Chromium, and for the sandbox
 * bubblewrap and a C compiler with a static C library. Installs them where that can be done without asking (root on
 * Debian), and otherwise names the exact command and fails.
 */
import { execFileSync } from "node:child_process";
import { existsSync, readdirSync } from "node:fs";
import { delimiter, join } from "node:path";

interface Need {
  what: string;
  apt: string;
  present(): boolean;
}

const onPath = (program: string) =>
  (process.env.PATH ?? "").split(delimiter).some((folder) => existsSync(join(folder, program)));

const debianPostgres = () => {
  const root = "/usr/lib/postgresql";
  return (
    existsSync(root) && readdirSync(root).some((version) => existsSync(join(root, version, "bin/initdb")))
  );
};

/** The compiler itself knows where; it answers with the bare name when there is none. */
const hasStaticLibrary = () =>
  execFileSync("cc", ["-print-file-name=libc.a"], { encoding: "utf8" }).trim() !== "libc.a";

const NEEDS: Need[] = [
  {
    what: "PostgreSQL server (initdb)",
    apt: "postgresql",
    present: () => onPath("initdb") || debianPostgres(),
  },
  { what: "python3", apt: "python3", present: () => existsSync("/usr/bin/python3") || onPath("python3") },
  { what: "Chromium", apt: "chromium", present: () => onPath("chromium") },
  {
    what: "bubblewrap (bwrap)",
    apt: "bubblewrap",
    present: () => existsSync("/usr/bin/bwrap") || onPath("bwrap"),
  },
  { what: "a C compiler (cc)", apt: "gcc", present: () => existsSync("/usr/bin/cc") || onPath("cc") },
  {
    what: "a static C library (libc.a)",
    apt: "libc6-dev",
    present: () => !onPath("cc") || hasStaticLibrary(),
  },
];

function main(): number {
  const missing = NEEDS.filter((need) => !need.present());
  if (missing.length === 0) return 0;
  const packages = missing.map((need) => need.apt);
  const command = `apt-get update && apt-get install -y --no-install-recommends ${packages.join(" ")}`;
  const canInstall = process.getuid?.() === 0 && existsSync("/usr/bin/apt-get");
  if (!canInstall) {
    console.error(`missing for the tests: ${missing.map((need) => need.what).join(", ")}`);
    console.error(`fix (Debian, Ubuntu): sudo sh -c '${command}'`);
    return 1;
  }
  console.error(`installing for the tests: ${packages.join(", ")}`);
  const env = { ...process.env, DEBIAN_FRONTEND: "noninteractive" };
  execFileSync("apt-get", ["update", "-q"], { stdio: ["ignore", "ignore", "inherit"], env });
  const install = ["install", "-y", "-q", "--no-install-recommends", ...packages];
  execFileSync("apt-get", install, { stdio: ["ignore", "ignore", "inherit"], env });
  const still = NEEDS.filter((need) => !need.present());
  for (const need of still) console.error(`still missing after the installation: ${need.what}`);
  return still.length === 0 ? 0 : 1;
}

if (import.meta.main) process.exitCode = main();
