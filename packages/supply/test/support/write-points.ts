/** Creates homes with packages, and kills processes while they install or remove a package. */
import { spawn } from "node:child_process";
import { once } from "node:events";
import { chmodSync, cpSync, mkdirSync, readdirSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { bundlePrograms } from "../../../../test/support/kernel-plugins/bundle-programs.ts";
import { openPackageHome, type PackageHome } from "../fixtures/package-home.ts";

const PROGRAMS = {
  "install-and-die": new URL("../fixtures/install-and-die.ts", import.meta.url),
  "schema-worker": new URL("../../src/schemas/schema-worker.ts", import.meta.url),
};

interface Change {
  action: "install" | "remove";
  /** Makes the change in a home. */
  program: string;
  /** The home before the change. */
  start: string;
  /** Describes the fault of the home after the process was killed; null if there is none. */
  check(packages: PackageHome): Promise<string | null>;
}

/** The error codes for changed files and for missing files. */
const DETECTED: ReadonlySet<string> = new Set(["package.corrupt", "package.files_missing"]);

/** Prepares homes in which version 2 is installed, removed or repaired, each time next to version 1. */
export async function prepareChanges(base: string): Promise<Record<"install" | "remove" | "repair", Change>> {
  const [first, second, damaged] = ["one", "two", "damaged"].map((name) => join(base, name)) as [
    string,
    string,
    string,
  ];
  const programs = join(base, "programs");
  await bundlePrograms(programs, PROGRAMS);
  const program = join(programs, "install-and-die.js");
  mkdirSync(first);
  const before = await openPackageHome(first);
  await before.install("1.0.0");
  await before.close();
  cpSync(first, second, { recursive: true });
  const after = await openPackageHome(second);
  const digest = await after.install("2.0.0");
  await after.close();
  cpSync(second, damaged, { recursive: true });
  const file = join(damaged, "blobs/sha256", digest.slice(7), "tree/bin/plugin");
  chmodSync(file, 0o755);
  writeFileSync(file, "changed");
  return {
    install: { action: "install", program, start: first, check: checkOldOrNew },
    remove: { action: "remove", program, start: second, check: checkOldOrNew },
    repair: {
      action: "install",
      program,
      start: damaged,
      check: (packages) =>
        packages.files.verifyTree(digest).then(
          () => null,
          ({ code }: { code: string }) => (DETECTED.has(code) ? null : code),
        ),
    },
  };
}

/** Requires both versions or only the first, the files of every row, and intact files everywhere. */
async function checkOldOrNew(packages: PackageHome): Promise<string | null> {
  const rows = await packages.listRows();
  const versions = rows
    .map((row) => row.version)
    .sort()
    .join(" and ");
  if (versions !== "1.0.0" && versions !== "1.0.0 and 2.0.0") return `the installed versions are ${versions}`;
  for (const digest of [...rows.map((row) => row.digest), ...packages.listDigests()])
    await packages.files.verifyTree(digest);
  return null;
}

/** Lists the writes of an uninterrupted run, in order. */
export async function listWritePoints({ start, action, program }: Change): Promise<string[]> {
  const home = `${start}-whole`;
  cpSync(start, home, { recursive: true });
  const { printed } = await runChange(program, home, action);
  rmSync(home, { recursive: true });
  return JSON.parse(printed) as string[];
}

/** Kills the process before each of the writes and returns all faults. After each kill, the change must succeed. */
export async function killAtEach(change: Change, points: readonly number[]): Promise<string[]> {
  const faults: string[] = [];
  const remaining = [...points];
  const worker = async () => {
    for (let point = remaining.shift(); point !== undefined; point = remaining.shift()) {
      const fault = await killAt(point, change).catch((error: unknown) => String(error));
      if (fault !== null) faults.push(`before write ${point}: ${fault}`);
    }
  };
  await Promise.all([worker(), worker()]);
  return faults;
}

async function killAt(point: number, change: Change): Promise<string | null> {
  const { start, action, program } = change;
  const home = `${start}-${action}-${point}`;
  cpSync(start, home, { recursive: true });
  const { signal } = await runChange(program, home, action, point);
  if (signal !== "SIGKILL") return "the process was not killed";
  const packages = await openPackageHome(home);
  try {
    if (readdirSync(join(home, "blobs/tmp")).length > 0) return "files are left in tmp";
    const fault = await change.check(packages);
    if (fault !== null) return fault;
    if (action === "install") await packages.files.verifyTree(await packages.install("2.0.0"));
    else if ((await packages.listRows()).length === 2) await packages.remove("2.0.0");
    return null;
  } finally {
    await packages.close();
    rmSync(home, { recursive: true });
  }
}

async function runChange(program: string, home: string, action: string, point = Number.POSITIVE_INFINITY) {
  const args = [program, home, action, "2.0.0", String(point)];
  // One thread for the file system, so that the order of calls is always the same.
  // Node caches compiled code at the end of a process, so the killed processes use the cache of the uninterrupted run.
  const { PATH, NODE_COMPILE_CACHE } = process.env;
  const env = { PATH, NODE_COMPILE_CACHE, UV_THREADPOOL_SIZE: "1" };
  const child = spawn(process.execPath, args, { env, stdio: ["ignore", "pipe", "inherit"] });
  let printed = "";
  child.stdout.on("data", (chunk) => (printed += chunk));
  const [, signal] = (await once(child, "close")) as [number | null, string | null];
  return { printed, signal };
}
