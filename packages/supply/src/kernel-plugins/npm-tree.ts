/**
 * The installed packages. `node_modules` is a link to the newest generation under `npm/`; a change works on a copy of
 * it and moves the link as its last step, so it happens whole or not at all, even when the machine stops in between.
 * Old generations stay until the next start: plugins that run from them go on running.
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

export interface InstalledPackage {
  name: string;
  dir: string;
  /** False: it is only here because another package needs it. */
  direct: boolean;
}

const GENERATIONS = "npm";
const CARRIED = ["node_modules", "package.json", "package-lock.json", "archives"];

export class NpmTree {
  readonly #dir: string;

  constructor(plugins_dir: string) {
    this.#dir = plugins_dir;
  }

  async packages(): Promise<InstalledPackage[]> {
    const root = await this.#root();
    if (root === null) return [];
    const wanted = await dependenciesOf(root);
    const names = await packageNames(join(this.#dir, "node_modules"));
    return names.map((name) => ({
      name,
      dir: join(this.#dir, "node_modules", name),
      direct: wanted === null || Object.hasOwn(wanted, name),
    }));
  }

  /** `work` changes the copy that it is given; when it throws, nothing has happened. */
  async change<T>(work: (staging: string) => Promise<T>): Promise<T> {
    const generations = join(this.#dir, GENERATIONS);
    await mkdir(generations, { recursive: true, mode: 0o700 });
    const staging = join(generations, `${Date.now().toString(36)}-${randomBytes(4).toString("hex")}`);
    await mkdir(staging, { mode: 0o700 });
    try {
      await this.#fill(staging);
      const result = await work(staging);
      await mkdir(join(staging, "node_modules"), { recursive: true });
      await openToOthers(join(staging, "node_modules"));
      await this.#publish(staging);
      return result;
    } catch (error) {
      await rm(staging, { recursive: true, force: true });
      throw error;
    }
  }

  /** Generations that nothing leads to. Only while no plugin runs. */
  async sweep(): Promise<void> {
    const generations = join(this.#dir, GENERATIONS);
    const current = await this.#root();
    if (current === null) return;
    for (const name of await listed(generations)) {
      const path = await realpath(join(generations, name)).catch(() => null);
      if (path !== null && path !== current) await rm(path, { recursive: true, force: true });
    }
  }

  /** The folder whose node_modules is in use; null when there is none. */
  async #root(): Promise<string | null> {
    try {
      return dirname(await realpath(join(this.#dir, "node_modules")));
    } catch {
      return null;
    }
  }

  async #fill(staging: string): Promise<void> {
    const root = await this.#root();
    if (root !== null) {
      for (const name of CARRIED) {
        await cp(join(root, name), join(staging, name), {
          recursive: true,
          verbatimSymlinks: true,
          mode: constants.COPYFILE_FICLONE,
        }).catch(unlessMissing);
      }
      if ((await dependenciesOf(root)) !== null) return;
    }
    // Packages that somebody put there by hand must not be pruned as nobody's.
    const dependencies: Record<string, string> = {};
    for (const { dir, name } of await this.packages()) dependencies[name] = await versionOf(dir);
    const manifest = { name: "backplane-plugins", private: true, dependencies };
    await writeFile(join(staging, "package.json"), `${JSON.stringify(manifest, null, 2)}\n`);
  }

  async #publish(generation: string): Promise<void> {
    const link = join(this.#dir, "node_modules");
    const draft = join(generation, ".link");
    await symlink(join(GENERATIONS, basename(generation), "node_modules"), draft);
    const there = await lstat(link).catch(() => null);
    if (there === null || there.isSymbolicLink()) return await rename(draft, link);
    // A folder that was made by hand cannot be replaced in one step; it goes aside and back again on failure.
    const aside = join(generation, ".before");
    await rename(link, aside);
    try {
      await rename(draft, link);
    } catch (error) {
      await rename(aside, link);
      throw error;
    }
    await rm(aside, { recursive: true, force: true });
  }
}

/** npm obeys the umask, and where the gateway is root, a plugin is another user, who only reads. */
async function openToOthers(path: string): Promise<void> {
  const info = await lstat(path);
  if (!info.isDirectory() && !info.isFile()) return;
  const mode = info.isDirectory() || (info.mode & 0o100) !== 0 ? 0o755 : 0o644;
  if ((info.mode & 0o7777) !== mode) await chmod(path, mode);
  if (!info.isDirectory()) return;
  for (const name of await readdir(path)) await openToOthers(join(path, name));
}

async function packageNames(node_modules: string): Promise<string[]> {
  const names: string[] = [];
  for (const name of await listed(node_modules)) {
    if (name.startsWith(".")) continue;
    if (!name.startsWith("@")) names.push(name);
    else names.push(...(await listed(join(node_modules, name))).map((part) => `${name}/${part}`));
  }
  return names.sort();
}

async function listed(dir: string): Promise<string[]> {
  return await readdir(dir).catch((): string[] => []);
}

/** null: there is no package.json that says. */
async function dependenciesOf(root: string): Promise<Record<string, unknown> | null> {
  try {
    const { dependencies } = JSON.parse(await readFile(join(root, "package.json"), "utf8")) as {
      dependencies?: Record<string, unknown>;
    };
    return dependencies ?? {};
  } catch {
    return null;
  }
}

async function versionOf(dir: string): Promise<string> {
  try {
    const { version } = JSON.parse(await readFile(join(dir, "package.json"), "utf8")) as {
      version?: unknown;
    };
    return typeof version === "string" ? version : "*";
  } catch {
    return "*";
  }
}

function unlessMissing(error: NodeJS.ErrnoException): void {
  if (error.code !== "ENOENT") throw error;
}
