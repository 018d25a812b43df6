/** Reads the plugins of a package from its package.json, without executing anything (plug.trust). */
import { readFile } from "node:fs/promises";
import { join } from "node:path";
import {
  isObject,
  isPluginName,
  PLUGIN_CATEGORIES,
  PLUGIN_ENTRY_GROUP,
  type PluginCategory,
  type PluginEntry,
  type PluginOrigin,
} from "@backplane/contract";
import type { PackageJson } from "../npm/package-json.ts";
import { findModuleEntry, findModuleFile } from "./resolve-module.ts";

/** The plugins that a package.json declares. */
export interface PluginDeclarations {
  /** The name of the package; null without one. */
  package_name: string | null;
  entries: PluginEntry[];
  problems: string[];
  /** False if the package.json has no section for plugins. */
  has_section: boolean;
}

export interface ReadOptions {
  origin: PluginOrigin;
  /** Default: the name of the package. */
  source?: string;
  conditions: readonly string[];
}

/** Finds the file at a path of the package, or the reason why there is none. */
export type FileLocator = (path: string) => Promise<{ file: string } | { problem: string }>;

const MAX_MANIFEST_CHARS = 1024 * 1024;
const MAX_PLUGINS = 64;

/** Null if there is no package.json. */
export async function readPluginPackage(
  dir: string,
  options: ReadOptions,
): Promise<PluginDeclarations | null> {
  let text: string;
  try {
    text = await readFile(join(dir, "package.json"), "utf8");
  } catch {
    return null;
  }
  return await readPackageJson(text, dir, (path) => findModuleFile(dir, path), options);
}

export async function readPackageJson(
  text: string,
  dir: string,
  locate: FileLocator,
  options: ReadOptions,
): Promise<PluginDeclarations> {
  const declarations: PluginDeclarations = {
    package_name: null,
    entries: [],
    problems: [],
    has_section: true,
  };
  const manifest = parse(text);
  if (manifest === null) {
    const problem = `its package.json is not a JSON object of at most ${MAX_MANIFEST_CHARS} characters`;
    return { ...declarations, problems: [problem] };
  }
  if (typeof manifest.name === "string") declarations.package_name = manifest.name;
  const group = manifest[PLUGIN_ENTRY_GROUP];
  if (group === undefined) return { ...declarations, has_section: false };
  if (!isObject(group) || Object.keys(group).length === 0) {
    return { ...declarations, problems: [`${PLUGIN_ENTRY_GROUP} in its package.json has no plugins`] };
  }
  if (Object.keys(group).length > MAX_PLUGINS) {
    return { ...declarations, problems: [`its package.json has more than ${MAX_PLUGINS} plugins`] };
  }
  for (const [name, declaration] of Object.entries(group)) {
    const entry = await readEntry({ dir, locate, manifest, ...options }, name, declaration);
    if (typeof entry === "string") declarations.problems.push(entry);
    else declarations.entries.push(entry);
  }
  return declarations;
}

/** Whether a package.json declares kernel plugins. False for text that is too long or not JSON. */
export function declaresPlugins(text: string): boolean {
  return parse(text)?.[PLUGIN_ENTRY_GROUP] !== undefined;
}

async function readEntry(
  options: ReadOptions & { dir: string; locate: FileLocator; manifest: PackageJson },
  name: string,
  declaration: unknown,
): Promise<PluginEntry | string> {
  const { conditions, dir, locate, manifest, origin, source } = options;
  if (!isPluginName(name)) {
    return `the plugin name ${JSON.stringify(name.slice(0, 80))} is not in kebab-case or is longer than 64 characters`;
  }
  if (!isObject(declaration)) return `the entry of ${name} is not an object; write {"category": "…"}`;
  const { category, module } = declaration;
  if (!(PLUGIN_CATEGORIES as readonly unknown[]).includes(category)) {
    return `the category of ${name} is not one of ${PLUGIN_CATEGORIES.join(", ")}`;
  }
  if (typeof manifest.version !== "string" || manifest.version === "")
    return "its package.json has no version";
  if (module !== undefined && typeof module !== "string") return `the module of ${name} is not a path`;
  const path = module ?? findModuleEntry(manifest, conditions);
  if (path === null) return `its package.json exports nothing as "."`;
  const file = await locate(path);
  if ("problem" in file) return file.problem;
  return {
    name,
    version: manifest.version,
    category: category as PluginCategory,
    origin,
    source: source ?? (typeof manifest.name === "string" ? manifest.name : dir),
    dir,
    module: file.file,
  };
}

function parse(text: string): PackageJson | null {
  if (text.length > MAX_MANIFEST_CHARS) return null;
  try {
    const value: unknown = JSON.parse(text);
    return isObject(value) ? value : null;
  } catch {
    return null;
  }
}
