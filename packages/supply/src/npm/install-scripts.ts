/**
 * Install scripts of npm packages. None runs unless the operator allows those of a package by name; they then run where
 * the gateway provides a sandbox for them.
 */
import { readFile, rm, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { BackplaneError } from "@backplane/contract";
import type { InstallScripts } from "@backplane/ports";

interface ScriptLock {
  packages?: Record<string, { version?: string; hasInstallScript?: boolean }>;
}

export interface ScriptedPackage {
  name: string;
  version: string;
}

const LOCK_FILE = "package-lock.json";

/** The packages of the tree that have install scripts, by name. */
export async function findInstallScripts(dir: string): Promise<ScriptedPackage[]> {
  const { packages = {} } = JSON.parse(await readFile(join(dir, LOCK_FILE), "utf8")) as ScriptLock;
  const found = new Map<string, ScriptedPackage>();
  for (const [location, { version = "", hasInstallScript }] of Object.entries(packages)) {
    if (location === "" || hasInstallScript !== true) continue;
    const name = location.slice(location.lastIndexOf("node_modules/") + "node_modules/".length);
    found.set(`${name}@${version}`, { name, version });
  }
  return [...found.values()].sort((a, b) => (a.name < b.name ? -1 : 1));
}

/** Throws if a name does not belong to a package with install scripts. */
export function selectAllowed(
  found: readonly ScriptedPackage[],
  allowed: readonly string[],
): ScriptedPackage[] {
  const unknown = allowed.find((name) => !found.some((each) => each.name === name));
  if (unknown === undefined) return found.filter(({ name }) => allowed.includes(name));
  const names = [...new Set(found.map(({ name }) => name))].join(", ");
  throw new BackplaneError(
    "plugin.source_invalid",
    `${unknown} is not a package with install scripts in this tree.`,
    {
      fix:
        names === ""
          ? "Leave --allow-scripts out: no package has install scripts."
          : `Packages with install scripts: ${names}.`,
    },
  );
}

/** Scripts may change everything in the folder, so the lock is restored afterwards. */
export async function runAllowedScripts(
  scripts: InstallScripts | null,
  dir: string,
  allowed: readonly ScriptedPackage[],
  npm_cli: string,
): Promise<void> {
  if (allowed.length === 0) return;
  if (scripts === null) throw new BackplaneError("sandbox.unavailable", "Install scripts need the sandbox.");
  const lock = await readFile(join(dir, LOCK_FILE));
  await scripts.run({ folder: dir, packages: [...new Set(allowed.map(({ name }) => name))], npm_cli });
  await replaceFile(dir, LOCK_FILE, lock);
}

/** Writes a file of the gateway into a folder that scripts have changed: a link in its place is not followed. */
export async function replaceFile(dir: string, name: string, content: string | Uint8Array): Promise<void> {
  await rm(join(dir, name), { recursive: true, force: true });
  await writeFile(join(dir, name), content, { flag: "wx" });
}

/** What the operator should know about scripts that did not run. */
export function skippedScriptsNote(spec: string, skipped: readonly ScriptedPackage[]): string | null {
  if (skipped.length === 0) return null;
  const names = skipped.map(({ name, version }) => `${name}@${version}`).join(", ");
  const flags = [...new Set(skipped.map(({ name }) => `--allow-scripts ${name}`))].join(" ");
  return `Install scripts were not run: ${names}. If the server fails without them, install it with ${flags} (npm:${spec}); they run in the sandbox, without network and secrets.`;
}
