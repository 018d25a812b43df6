/**
 * The files of a hosted plugin and their paths inside the sandbox. Everything keeps its path relative to one root, so
 * that Node resolves modules as it would on the host. An installed plugin is mounted together with the node_modules
 * folder that contains it; a linked plugin in a workspace, with the workspace's node_modules and the packages linked
 * from there; any other linked plugin, alone. Nothing else in a workspace is mounted, because it can contain anything.
 */
import { lstat, readdir, readFile, realpath, stat } from "node:fs/promises";
import { dirname, join, relative, sep } from "node:path";
import { BackplaneError, type PluginEntry } from "@backplane/contract";
import type { DialectLaunch } from "../ports/dialect.ts";
import { INSIDE } from "../sandbox/plan.ts";
import { isUnreadable } from "./readable-copy.ts";

export interface PluginTree {
  /** The real path of the plugin's folder. */
  folder: string;
  /** The paths of the folder and of the module inside the sandbox. */
  folder_at: string;
  module: string;
  binds: DialectLaunch["binds"];
  /** Other users cannot read the folder or the module, so the sandbox needs a copy. */
  needs_copy: boolean;
  /** The gateway's own folders inside the mounted folders, as host paths. */
  own_folders: string[];
  /**
   * The sandbox paths of those own folders that the process would see. A copy leaves out the ones in the plugin's
   * folder, but the other mounted folders are never copied.
   */
  hidden: string[];
  /** Replaces sandbox paths in a stack trace with paths on this machine. */
  toHostPaths(text: string): string;
}

const MODULES = "node_modules";
/** Bounds the number of mounts; the plugin does not see packages beyond this number. */
const MAX_LINKED = 40;

export async function resolvePluginTree(
  entry: PluginEntry,
  hidden_folders: readonly string[],
): Promise<PluginTree> {
  const folder = await realpath(entry.dir);
  const module = await realpath(entry.module);
  const own = await Promise.all(hidden_folders.map((path) => realpath(path).catch(() => path)));
  if (own.includes(folder)) {
    throw new BackplaneError("launch_failed", `The folder of ${entry.name} is the gateway's own folder.`, {
      fix: "Move the plugin into a folder of its own and install it from there.",
    });
  }
  const { root, siblings } = (await findInstalledRoot(entry, folder)) ??
    (await findWorkspaceRoot(folder, own)) ?? { root: folder, siblings: [] };
  const mounted = [folder, ...siblings];
  if (!mounted.some((path) => isWithin(path, module))) {
    throw new BackplaneError(
      "launch_failed",
      `The module of ${entry.name} is a link to ${module}, outside its folder and therefore not in the sandbox.`,
      { fix: "Move the file into the plugin's folder." },
    );
  }
  for (const path of siblings) await assertReadable(entry.name, path);
  const inside = (path: string) => join(INSIDE.plugin, relative(root, path));
  const isMountedBy = (folders: readonly string[]) => (path: string) =>
    folders.some((folder) => isWithin(folder, path));
  const own_folders = own.filter(isMountedBy(mounted));
  const needs_copy = (await isUnreadable(folder)) || (await isUnreadable(module));
  return {
    folder,
    folder_at: inside(folder),
    module: inside(module),
    binds: siblings.map((source) => ({ source, target: inside(source), writable: false })),
    needs_copy,
    own_folders,
    hidden: own_folders.filter(isMountedBy(needs_copy ? siblings : mounted)).map(inside),
    toHostPaths: (text) => text.replaceAll(/(^|[\s("'`]|file:\/\/)\/plugin(?=\/)/gm, `$1${root}`),
  };
}

interface PackageRoot {
  root: string;
  siblings: string[];
}

/** A link in node_modules that was created by hand counts as a linked plugin. */
async function findInstalledRoot(
  { origin, source }: PluginEntry,
  folder: string,
): Promise<PackageRoot | null> {
  const suffix = join(sep, MODULES, source);
  if (origin !== "installed" || !folder.endsWith(suffix)) return null;
  const root = folder.slice(0, -suffix.length);
  return { root, siblings: [join(root, MODULES)] };
}

async function findWorkspaceRoot(folder: string, own: readonly string[]): Promise<PackageRoot | null> {
  for (let dir = dirname(folder); dir !== dirname(dir); dir = dirname(dir)) {
    if (!(await isWorkspace(dir))) continue;
    const modules = join(dir, MODULES);
    if (!(await isFolder(modules))) return null;
    const linked = await findLinkedPackages(modules, dir, folder);
    // A link into a folder of the gateway would expose part of that folder.
    const isOwn = (path: string) => own.some((hidden) => isWithin(dir, hidden) && isWithin(hidden, path));
    return { root: dir, siblings: [modules, ...linked.filter((path) => !isOwn(path)).slice(0, MAX_LINKED)] };
  }
  return null;
}

async function isWorkspace(dir: string): Promise<boolean> {
  const text = await readFile(join(dir, "package.json"), "utf8").catch(() => null);
  if (text === null) return false;
  try {
    return (JSON.parse(text) as { workspaces?: unknown }).workspaces !== undefined;
  } catch {
    return false;
  }
}

/** Packages of the same workspace that `modules` links to, except the plugin itself. */
async function findLinkedPackages(modules: string, root: string, folder: string): Promise<string[]> {
  const links: string[] = [];
  for (const name of await readdir(modules)) {
    if (name.startsWith("@")) {
      for (const part of await readdir(join(modules, name)).catch(() => [])) links.push(join(name, part));
    } else if (!name.startsWith(".")) links.push(name);
  }
  const folders = new Set<string>();
  for (const name of links) {
    const path = join(modules, name);
    if (!(await lstat(path)).isSymbolicLink()) continue;
    const target = await realpath(path).catch(() => null);
    if (target === null || !isWithin(root, target) || target === root || isWithin(target, folder)) continue;
    if (await isFolder(target)) folders.add(target);
  }
  return [...folders];
}

/** A workspace or a whole node_modules folder is too large to copy. */
async function assertReadable(name: string, path: string): Promise<void> {
  if (!(await isUnreadable(path))) return;
  throw new BackplaneError(
    "launch_failed",
    `Other users cannot read ${path}, which the plugin ${name} needs, and in the sandbox the plugin runs as another user.`,
    { fix: `chmod -R o+rX ${path}` },
  );
}

async function isFolder(path: string): Promise<boolean> {
  return await stat(path).then(
    (info) => info.isDirectory(),
    () => false,
  );
}

function isWithin(folder: string, path: string): boolean {
  return path === folder || path.startsWith(folder + sep);
}
