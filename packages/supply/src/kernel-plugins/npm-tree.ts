/**
 * The installed npm packages. `node_modules` is a link to the current generation under `npm/`. A change works on a copy
 * of the generation and moves the link as its last step, so it is atomic even after a crash. Old generations stay until
 * the next start, because running plugins use them.
 */
import { randomBytes } from "node:crypto";
import { constants } from "node:fs";
import {
  chmod,
  cp,
  lstat,
  mkdir,
  readdir,
  readFile,
  realpath,
  rename,
  rm,
  symlink,
  writeFile,
} from "node:fs/promises";
import { basename, dirname, join } from "node:path";
import { diskFault, type PluginEntry, type Provenance } from "@backplane/contract";
import { PROVENANCE_FILE, readProvenance } from "./provenance-record.ts";

export interface InstalledPackage {
  name: string;
  dir: string;
  /** False if the package is installed only as a dependency of another package. */
  direct: boolean;
}

const GENERATIONS = "npm";
const COPIED = ["node_modules", "package.json", "package-lock.json", "archives", PROVENANCE_FILE];

export class NpmTree {
  readonly #dir: string;

  constructor(plugins_dir: string) {
    this.#dir = plugins_dir;
  }

  async listPackages(): Promise<InstalledPackage[]> {
    const root = await this.#findCurrentRoot();
    if (root === null) return [];
    const declared = await readDependencies(root);
    const names = await listPackageNames(join(this.#dir, "node_modules"));
    return names.map((name) => ({
      name,
      dir: join(this.#dir, "node_modules", name),
      direct: declared === null || Object.hasOwn(declared, name),
    }));
  }

  /** Returns undefined if nothing is recorded for this version of the package. */
  async readProvenance(name: string, version: string): Promise<Provenance | undefined> {
    const root = await this.#findCurrentRoot();
    return root === null ? undefined : await readProvenance(root, name, version);
  }

  /** Replaces the tree with a copy that `work` has changed. When `work` throws, the tree stays unchanged. */
  async change<T>(work: (staging: string) => Promise<T>): Promise<T> {
    const generations = join(this.#dir, GENERATIONS);
    await mkdir(generations, { recursive: true, mode: 0o700 });
    const staging = join(generations, `${Date.now().toString(36)}-${randomBytes(4).toString("hex")}`);
    await mkdir(staging, { mode: 0o700 });
    try {
      await this.#copyCurrent(staging);
      const result = await work(staging);
      await mkdir(join(staging, "node_modules"), { recursive: true });
      await makeReadable(join(staging, "node_modules"));
      await this.#publish(staging);
      return result;
    } catch (error) {
      await rm(staging, { recursive: true, force: true });
      throw diskFault(error, "the gateway's home (plugins)") ?? error;
    }
  }

  /** Removes all generations but the current one. Call it only while no plugin is running. */
  async sweep(): Promise<void> {
    const generations = join(this.#dir, GENERATIONS);
    const current = await this.#findCurrentRoot();
    if (current === null) return;
    for (const name of await listFolder(generations)) {
      const path = await realpath(join(generations, name)).catch(() => null);
      if (path !== null && path !== current) await rm(path, { recursive: true, force: true });
    }
  }

  /** The folder of the current node_modules; null without one. */
  async #findCurrentRoot(): Promise<string | null> {
    try {
      return dirname(await realpath(join(this.#dir, "node_modules")));
    } catch {
      return null;
    }
  }

  async #copyCurrent(staging: string): Promise<void> {
    const root = await this.#findCurrentRoot();
    if (root !== null) {
      for (const name of COPIED) {
        await cp(join(root, name), join(staging, name), {
          recursive: true,
          verbatimSymlinks: true,
          mode: constants.COPYFILE_FICLONE,
        }).catch(ignoreMissing);
      }
      if ((await readDependencies(root)) !== null) return;
    }
    // Packages that were added by hand must be dependencies, or npm would prune them.
    const dependencies: Record<string, string> = {};
    for (const { dir, name } of await this.listPackages()) dependencies[name] = await readVersion(dir);
    const manifest = { name: "backplane-plugins", private: true, dependencies };
    await writeFile(join(staging, "package.json"), `${JSON.stringify(manifest, null, 2)}\n`);
  }

  async #publish(generation: string): Promise<void> {
    const link = join(this.#dir, "node_modules");
    const draft = join(generation, ".link");
    await symlink(join(GENERATIONS, basename(generation), "node_modules"), draft);
    const existing = await lstat(link).catch(() => null);
    if (existing === null || existing.isSymbolicLink()) return await rename(draft, link);
    // A real folder cannot be replaced in one step, so it is moved away, and back after a failure.
    const backup = join(generation, ".before");
    await rename(link, backup);
    try {
      await rename(draft, link);
    } catch (error) {
      await rename(backup, link);
      throw error;
    }
    await rm(backup, { recursive: true, force: true });
  }
}

/** Adds the provenance that is recorded for the package of the plugin. */
export async function withProvenance(tree: NpmTree, entry: PluginEntry): Promise<PluginEntry> {
  const provenance = await tree.readProvenance(entry.source, entry.version);
  return provenance === undefined ? entry : { ...entry, provenance };
}

/**
 * npm applies the umask. If the gateway runs as root, plugins run as other users, who must be able to read the files.
 */
async function makeReadable(path: string): Promise<void> {
  const info = await lstat(path);
  if (!info.isDirectory() && !info.isFile()) return;
  const mode = info.isDirectory() || (info.mode & 0o100) !== 0 ? 0o755 : 0o644;
  if ((info.mode & 0o7777) !== mode) await chmod(path, mode);
  if (!info.isDirectory()) return;
  for (const name of await readdir(path)) await makeReadable(join(path, name));
}

async function listPackageNames(node_modules: string): Promise<string[]> {
  const names: string[] = [];
  for (const name of await listFolder(node_modules)) {
    if (name.startsWith(".")) continue;
    if (!name.startsWith("@")) names.push(name);
    else names.push(...(await listFolder(join(node_modules, name))).map((part) => `${name}/${part}`));
  }
  return names.sort();
}

async function listFolder(dir: string): Promise<string[]> {
  return await readdir(dir).catch((): string[] => []);
}

/** Null if there is no readable package.json. */
async function readDependencies(root: string): Promise<Record<string, unknown> | null> {
  try {
    const { dependencies } = JSON.parse(await readFile(join(root, "package.json"), "utf8")) as {
      dependencies?: Record<string, unknown>;
    };
    return dependencies ?? {};
  } catch {
    return null;
  }
}

async function readVersion(dir: string): Promise<string> {
  try {
    const { version } = JSON.parse(await readFile(join(dir, "package.json"), "utf8")) as {
      version?: unknown;
    };
    return typeof version === "string" ? version : "*";
  } catch {
    return "*";
  }
}

function ignoreMissing(error: NodeJS.ErrnoException): void {
  if (error.code !== "ENOENT") throw error;
}
