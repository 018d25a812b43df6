/**
 * Finds the plugins in this order: bundled, installed, local. A later plugin replaces an earlier one of the same name
 * (plug.discovery).
 */
import { PLUGIN_ENTRY_GROUP, type PluginEntry, type PluginOrigin } from "@backplane/contract";
import type { DiscoveredPlugins } from "@backplane/ports";
import { folderPath, readLocalList } from "./local-list.ts";
import { type NpmTree, withProvenance } from "./npm-tree.ts";
import { type PluginDeclarations, readPluginPackage } from "./read-package.ts";

export interface DiscoverOptions {
  plugins_dir: string;
  bundled_roots: readonly string[];
  tree: NpmTree;
  conditions: readonly string[];
}

export async function discoverPlugins(options: DiscoverOptions): Promise<DiscoveredPlugins> {
  const entries_by_name = new Map<string, PluginEntry>();
  const problems: DiscoveredPlugins["problems"] = [];
  const add = (source: string, origin: PluginOrigin, { entries, problems: errors }: PluginDeclarations) => {
    for (const error of errors) problems.push({ source, error });
    for (const entry of entries) {
      const existing = entries_by_name.get(entry.name);
      // Plugins of the same origin have no order.
      if (existing?.origin === origin && existing.source !== entry.source) {
        problems.push({ source, error: `${entry.name} is already a plugin of ${existing.source}` });
        continue;
      }
      entries_by_name.delete(entry.name);
      entries_by_name.set(entry.name, entry);
    }
  };
  await addBundled(options, add);
  await addInstalled(options, problems, add);
  await addLocal(options, problems, add);
  return { entries: [...entries_by_name.values()], problems };
}

type AddDeclarations = (source: string, origin: PluginOrigin, declarations: PluginDeclarations) => void;

/** A missing folder is not an error, because a distribution may omit bundled plugins. */
async function addBundled(
  { bundled_roots, conditions }: DiscoverOptions,
  add: AddDeclarations,
): Promise<void> {
  for (const dir of bundled_roots) {
    const declarations = await readPluginPackage(dir, { origin: "bundled", conditions });
    if (declarations !== null)
      add(declarations.package_name ?? dir, "bundled", requireDeclaration(declarations));
  }
}

async function addInstalled(
  { conditions, tree }: DiscoverOptions,
  problems: DiscoveredPlugins["problems"],
  add: AddDeclarations,
): Promise<void> {
  for (const { dir, direct, name } of await tree.listPackages()) {
    const declarations = await readPluginPackage(dir, { origin: "installed", source: name, conditions });
    if (declarations === null || !declarations.has_section) continue;
    if (direct) {
      const entries = await Promise.all(declarations.entries.map((entry) => withProvenance(tree, entry)));
      add(name, "installed", { ...declarations, entries });
    }
    // The package is a dependency of another package, and nobody agreed to run it as a plugin.
    else
      problems.push({
        source: name,
        error: "it is installed only as a dependency of another package; install it by its name",
      });
  }
}

async function addLocal(
  { conditions, plugins_dir }: DiscoverOptions,
  problems: DiscoveredPlugins["problems"],
  add: AddDeclarations,
): Promise<void> {
  const { folders, problem } = await readLocalList(plugins_dir);
  if (problem !== null) problems.push({ source: "local.json", error: problem });
  for (const folder of folders) {
    const dir = folderPath(plugins_dir, folder);
    const source = folder.from ?? dir;
    const declarations = await readPluginPackage(dir, { origin: "local", source, conditions });
    if (declarations === null) problems.push({ source, error: "the folder no longer has a package.json" });
    else add(source, "local", requireDeclaration(declarations));
  }
}

/** The operator specified this folder as a plugin, so a missing declaration is a problem. */
function requireDeclaration(declarations: PluginDeclarations): PluginDeclarations {
  if (declarations.has_section) return declarations;
  return { ...declarations, problems: [`its package.json has no ${PLUGIN_ENTRY_GROUP}`] };
}
