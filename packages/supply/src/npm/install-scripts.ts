/**
 * Install scripts of npm packages. None runs unless the operator allows the scripts of a package by name; they then run
 * in a sandbox that the gateway provides.
 */
import { existsSync } from "node:fs";
import { readFile, rm, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { BackplaneError } from "@backplane/contract";
import type { InstallScripts, Operation } from "@backplane/ports";

interface ScriptLock {
  packages?: Record<string, { version?: string; hasInstallScript?: boolean }>;
}

export interface ScriptedPackage {
  name: string;
  version: string;
}

const LOCK_FILE = "package-lock.json";

/** The installed packages that have install scripts, sorted by name. */
export async function findInstallScripts(dir: string): Promise<ScriptedPackage[]> {
  const { packages = {} } = JSON.parse(await readFile(join(dir, LOCK_FILE), "utf8")) as ScriptLock;
  const scripted = new Map<string, ScriptedPackage>();
  for (const [location, { version = "", hasInstallScript }] of Object.entries(packages)) {
    // The lock also contains optional packages of other platforms, which are not installed.
    if (location === "" || hasInstallScript !== true || !existsSync(join(dir, location))) continue;
    const name = location.slice(location.lastIndexOf("node_modules/") + "node_modules/".length);
    scripted.set(`${name}@${version}`, { name, version });
  }
  return [...scripted.values()].sort((a, b) => (a.name < b.name ? -1 : 1));
}

/** The packages whose install scripts an operator allows, for all dependency trees of one source. */
export class AllowedScripts {
  readonly #names: readonly string[];
  readonly #found = new Set<string>();

  constructor(names: readonly string[]) {
    this.#names = names;
  }

  select(scripted: readonly ScriptedPackage[]): ScriptedPackage[] {
    for (const { name } of scripted) this.#found.add(name);
    return scripted.filter(({ name }) => this.#names.includes(name));
  }

  /** Throws if a name matched no package with install scripts, because it is probably misspelled. */
  assertFound(): void {
    const unknown = this.#names.find((name) => !this.#found.has(name));
    if (unknown === undefined) return;
    throw new BackplaneError(
      "plugin.source_invalid",
      `Install scripts of ${unknown} are allowed, but it is not a dependency with install scripts.`,
      {
        fix:
          this.#found.size === 0
            ? "Leave --allow-scripts out: no dependency has install scripts."
            : `Dependencies with install scripts: ${[...this.#found].sort().join(", ")}.`,
      },
    );
  }
}

/** Scripts can change everything in the folder, so the lock is restored afterwards. */
export async function runScripts(
  scripts: InstallScripts | null,
  dir: string,
  selected: readonly ScriptedPackage[],
  npm_cli: string,
  operation: Operation,
): Promise<void> {
  if (scripts === null) throw new BackplaneError("sandbox.unavailable", "Install scripts need the sandbox.");
  const lock = await readFile(join(dir, LOCK_FILE));
  const packages = [...new Set(selected.map(({ name }) => name))];
  operation.report({ step: "build", message: `Running the install scripts of ${packages.join(", ")}` });
  await scripts.run({ folder: dir, packages, npm_cli, signal: operation.signal });
  await replaceFile(dir, LOCK_FILE, lock);
}

/** Writes a file of the gateway into a folder that scripts have changed: a link in its place is not followed. */
export async function replaceFile(dir: string, name: string, content: string | Uint8Array): Promise<void> {
  await rm(join(dir, name), { recursive: true, force: true });
  await writeFile(join(dir, name), content, { flag: "wx" });
}

/** A note for the operator about scripts that did not run. */
export function skippedScriptsNote(spec: string, skipped: readonly ScriptedPackage[]): string {
  const names = skipped.map(({ name, version }) => `${name}@${version}`).join(", ");
  const flags = [...new Set(skipped.map(({ name }) => `--allow-scripts ${name}`))].join(" ");
  return `Install scripts of npm:${spec} were not run: ${names}. If the server fails without them, install it again with ${flags}. They run in the sandbox, without network access or secrets.`;
}
