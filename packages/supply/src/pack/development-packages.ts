/**
 * The packages below node_modules that only the development of a plugin needs: its devDependencies and their
 * dependencies, except those that its other dependencies need too. A package that is not declared anywhere stays,
 * because it may have been copied there.
 */
import { readFile, stat } from "node:fs/promises";
import { join, posix } from "node:path";
import { isObject } from "@backplane/contract";

const MAX_JSON_BYTES = 1024 * 1024;
/** A peer dependency is installed beside the package, if at all. */
const NEEDED = ["dependencies", "optionalDependencies", "peerDependencies"] as const;

/** Paths relative to `dir`, with forward slashes. */
export async function findDevelopmentPackages(dir: string): Promise<ReadonlySet<string>> {
  const root = await readPackageJson(dir, "");
  const development = Object.keys(root.devDependencies ?? {});
  if (development.length === 0) return new Set();
  const needed = await collectPackages(
    dir,
    NEEDED.flatMap((group) => Object.keys(root[group] ?? {})),
  );
  const packages = await collectPackages(dir, development);
  for (const path of needed) packages.delete(path);
  return packages;
}

/** These packages and all their dependencies, resolved as in Node: from the folder of the package upwards. */
async function collectPackages(dir: string, names: readonly string[]): Promise<Set<string>> {
  const packages = new Set<string>();
  const queue = names.map((name) => ({ name, from: "" }));
  for (let next = queue.pop(); next !== undefined; next = queue.pop()) {
    const path = await locate(dir, next.from, next.name);
    if (path === null || packages.has(path)) continue;
    packages.add(path);
    const json = await readPackageJson(dir, path);
    for (const group of NEEDED)
      for (const name of Object.keys(json[group] ?? {})) queue.push({ name, from: path });
  }
  return packages;
}

async function locate(dir: string, from: string, name: string): Promise<string | null> {
  // A name that is a path has any number of spellings, and each would be treated as another package.
  if (!/^(?:@[^@/\\]+\/)?[^@/\\.][^@/\\]*$/.test(name)) return null;
  for (let at = from; ; at = posix.dirname(at)) {
    const path = at === "" || at === "." ? `node_modules/${name}` : `${at}/node_modules/${name}`;
    if (posix.basename(at) !== "node_modules" && (await isFolder(join(dir, path)))) return path;
    if (at === "" || at === ".") return null;
  }
}

async function isFolder(path: string): Promise<boolean> {
  return (await stat(path).catch(() => null))?.isDirectory() === true;
}

type PackageGroups = Partial<Record<(typeof NEEDED)[number] | "devDependencies", Record<string, unknown>>>;

async function readPackageJson(dir: string, path: string): Promise<PackageGroups> {
  const file = join(dir, path, "package.json");
  const info = await stat(file).catch(() => null);
  if (info === null || !info.isFile() || info.size > MAX_JSON_BYTES) return {};
  try {
    const json: unknown = JSON.parse(await readFile(file, "utf8"));
    if (!isObject(json)) return {};
    return Object.fromEntries(Object.entries(json).filter(([, value]) => isObject(value))) as PackageGroups;
  } catch {
    return {};
  }
}
