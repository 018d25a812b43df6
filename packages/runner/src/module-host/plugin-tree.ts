/**
 * What of this machine a hosted plugin is made of, and where each piece is inside: everything under one root keeps
 * its place below it, so Node finds there what it would find outside. Installed, that is the node_modules it is in;
 * linked, its folder and, where it belongs to a workspace, the workspace's node_modules with the packages that this
 * links to. Never more: what else lies in a workspace may be anything.
 */
import { lstat, readdir, readFile, realpath, stat } from "node:fs/promises";
import { dirname, join, relative, sep } from "node:path";
import { BackplaneError, type PluginEntry } from "@backplane/contract";
import type { DialectLaunch } from "../ports/dialect.ts";
import { INSIDE } from "../sandbox/plan.ts";
import { isClosed } from "./readable-copy.ts";

export interface PluginTree {
  /** Its own folder, by its real path. */
  folder: string;
  folder_at: string;
  module: string;
  binds: DialectLaunch["binds"];
  /** To other users; root then shows a copy. */
  closed: boolean;
  /** The gateway's own folders, where they lie within the plugin's: on this machine, and inside. */
  own: string[];
  hidden: string[];
  /** Paths of the sandbox in a trace, as paths of this machine. */
  outside(text: string): string;
}

const MODULES = "node_modules";
/** A sandbox takes 64 mounts in all. */
const MOST_LINKED = 40;

export async function pluginTree(entry: PluginEntry, secluded: readonly string[]): Promise<PluginTree> {
  const folder = await realpath(entry.dir);
  const module = await realpath(entry.module);
  const { root, beside } = (await installed(entry, folder)) ?? (await workspaceOf(folder)) ?? alone(folder);
  const shown = [folder, ...beside];
  if (!shown.some((path) => isWithin(path, module))) {
    throw new BackplaneError(
      "launch_failed",
      `The module of ${entry.name} is a link that leads out of its folder, to ${module}; it is not in the sandbox.`,
      { fix: "Put the file into the plugin's folder." },
    );
  }
  for (const path of beside) await mustBeOpen(entry.name, path);
  const inside = (path: string) => join(INSIDE.plugin, relative(root, path));
  const real = await Promise.all(secluded.map((path) => realpath(path).catch(() => path)));
  const own = real.filter((path) => shown.some((one) => isWithin(one, path)));
  return {
    folder,
    folder_at: inside(folder),
    module: inside(module),
    binds: beside.map((source) => ({ source, target: inside(source), writable: false })),
    closed: (await isClosed(folder)) || (await isClosed(module)),
    own,
    hidden: own.map(inside),
    outside: (text) => text.replaceAll(/(^|[\s("'`]|file:\/\/)\/plugin(?=\/)/gm, `$1${root}`),
  };
}

interface Found {
  root: string;
  beside: string[];
}

function alone(folder: string): Found {
  return { root: folder, beside: [] };
}

/** A link in there that somebody made by hand is a folder like another. */
async function installed({ origin, source }: PluginEntry, folder: string): Promise<Found | null> {
  const place = join(sep, MODULES, source);
  if (origin !== "installed" || !folder.endsWith(place)) return null;
  const root = folder.slice(0, -place.length);
  return { root, beside: [join(root, MODULES)] };
}

async function workspaceOf(folder: string): Promise<Found | null> {
  for (let dir = dirname(folder); dir !== dirname(dir); dir = dirname(dir)) {
    if (!(await isWorkspace(dir))) continue;
    const modules = join(dir, MODULES);
    if (!(await isFolder(modules))) return null;
    return { root: dir, beside: [modules, ...(await linkedFrom(modules, dir, folder))] };
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

/** Packages of the same workspace that `modules` links to, but for the plugin itself. */
async function linkedFrom(modules: string, root: string, folder: string): Promise<string[]> {
  const links: string[] = [];
  for (const name of await readdir(modules)) {
    if (name.startsWith("@")) {
      for (const part of await readdir(join(modules, name)).catch(() => [])) links.push(join(name, part));
    } else if (!name.startsWith(".")) links.push(name);
  }
  const found = new Set<string>();
  for (const name of links) {
    const path = join(modules, name);
    if (!(await lstat(path)).isSymbolicLink()) continue;
    const target = await realpath(path).catch(() => null);
    if (target === null || !isWithin(root, target) || target === root || isWithin(target, folder)) continue;
    if (await isFolder(target)) found.add(target);
  }
  return [...found].slice(0, MOST_LINKED);
}

/** A workspace, or all that is installed, is too much to copy. */
async function mustBeOpen(name: string, path: string): Promise<void> {
  if (!(await isClosed(path))) return;
  throw new BackplaneError(
    "launch_failed",
    `${path} of the plugin ${name} is closed to other users, and in the sandbox the plugin is another user.`,
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
