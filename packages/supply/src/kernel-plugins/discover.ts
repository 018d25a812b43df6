/** Bundled, then installed, then local; a later plugin of the same name takes the place of the earlier (plug.discovery). */
import { PLUGIN_ENTRY_GROUP, type PluginEntry, type PluginOrigin } from "@backplane/contract";
import type { DiscoveredPlugins } from "@backplane/ports";
import { folderPath, readLocalList } from "./local-list.ts";
import type { NpmTree } from "./npm-tree.ts";
import { type PackageReading, readPackage } from "./read-package.ts";

export interface DiscoverParts {
  plugins_dir: string;
  bundled_roots: readonly string[];
  tree: NpmTree;
  conditions: readonly string[];
}

export async function discoverPlugins(parts: DiscoverParts): Promise<DiscoveredPlugins> {
  const found = new Map<string, PluginEntry>();
  const problems: DiscoveredPlugins["problems"] = [];
  const take = (source: string, origin: PluginOrigin, { entries, problems: errors }: PackageReading) => {
    for (const error of errors) problems.push({ source, error });
    for (const entry of entries) {
      const before = found.get(entry.name);
      // Within one origin there is no order to go by.
      if (before?.origin === origin && before.source !== entry.source) {
        problems.push({ source, error: `${entry.name} is a plugin of ${before.source} already` });
        continue;
      }
      found.delete(entry.name);
      found.set(entry.name, entry);
    }
  };
  await addBundled(parts, take);
  await addInstalled(parts, problems, take);
  await addLocal(parts, problems, take);
  return { entries: [...found.values()], problems };
}

type Take = (source: string, origin: PluginOrigin, reading: PackageReading) => void;

/** One that is not on disk is simply not there: a distribution may leave bundled plugins out. */
async function addBundled({ bundled_roots, conditions }: DiscoverParts, take: Take): Promise<void> {
  for (const dir of bundled_roots) {
    const reading = await readPackage(dir, { origin: "bundled", conditions });
    if (reading !== null) take(reading.package_name ?? dir, "bundled", mustDeclare(reading));
  }
}

async function addInstalled(
  { conditions, tree }: DiscoverParts,
  problems: DiscoveredPlugins["problems"],
  take: Take,
): Promise<void> {
  for (const { dir, direct, name } of await tree.packages()) {
    const reading = await readPackage(dir, { origin: "installed", source: name, conditions });
    if (reading === null || !reading.declares) continue;
    if (direct) take(name, "installed", reading);
    // Nobody agreed to it: it came along with something else.
    else
      problems.push({ source: name, error: "it is only here for another package; install it by its name" });
  }
}

async function addLocal(
  { conditions, plugins_dir }: DiscoverParts,
  problems: DiscoveredPlugins["problems"],
  take: Take,
): Promise<void> {
  const { folders, problem } = await readLocalList(plugins_dir);
  if (problem !== null) problems.push({ source: "local.json", error: problem });
  for (const folder of folders) {
    const dir = folderPath(plugins_dir, folder);
    const source = folder.from ?? dir;
    const reading = await readPackage(dir, { origin: "local", source, conditions });
    if (reading === null) problems.push({ source, error: "there is no package.json in the folder any more" });
    else take(source, "local", mustDeclare(reading));
  }
}

/** Somebody named this folder as a plugin, so to say nothing is a problem too. */
function mustDeclare(reading: PackageReading): PackageReading {
  if (reading.declares) return reading;
  return { ...reading, problems: [`its package.json has no ${PLUGIN_ENTRY_GROUP}`] };
}
