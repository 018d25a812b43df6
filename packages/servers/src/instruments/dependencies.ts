/**
 * A plugin is loaded after the plugins that it depends on (instr.lifecycle). A plugin whose dependency is missing,
 * did not load or is part of a cycle is skipped with an error, and the others load.
 */

import {
  BackplaneError,
  compareVersions,
  type Definitions,
  type MaybePromise,
  type SourceInspection,
} from "@backplane/contract";
import type { BoundPackage } from "@backplane/ports";
import { sortByDependencies } from "@backplane/registry";
import { type InstrumentInfo, instrumentOf } from "./instrument-plugins.ts";

type Plugins = ReadonlyMap<string, BoundPackage>;

/** Returns each plugin after its dependencies, but plugins of a cycle last, so that each of them gets its error. */
export function sortForLoading(plugins: Plugins): BoundPackage[] {
  const { cycles, names } = sortByDependencies(toDependencyNodes(plugins));
  return [...names, ...cycles.keys()].flatMap((id) => plugins.get(id) ?? []);
}

/** A file from which a plugin is to be installed. */
export interface InspectedFile {
  path: string;
  inspection: SourceInspection;
}

/** Returns each file after those of its dependencies, otherwise in the given order, and the files of a cycle last. */
export function sortForInstallation(files: readonly InspectedFile[]): InspectedFile[] {
  const files_by_name = new Map(files.map((file) => [instrumentIn(file)?.plugin_id ?? file.path, file]));
  const nodes = [...files_by_name].map(([name, file]) => ({
    name,
    requires: instrumentIn(file)?.dependencies ?? [],
  }));
  const { cycles, names } = sortByDependencies(nodes);
  return [...names, ...cycles.keys()].flatMap((name) => files_by_name.get(name) ?? []);
}

/** Returns the error of each file whose plugin another file contains in the same or a newer version. */
export function findReplacedFiles(files: readonly InspectedFile[]): Map<InspectedFile, BackplaneError> {
  const newest = new Map<string, InspectedFile>();
  for (const file of files) {
    const id = instrumentIn(file)?.plugin_id;
    if (id === undefined) continue;
    const other = newest.get(id);
    if (other === undefined || compareVersions(versionIn(file), versionIn(other)) > 0) newest.set(id, file);
  }
  const replaced = new Map<InspectedFile, BackplaneError>();
  for (const file of files) {
    const id = instrumentIn(file)?.plugin_id;
    const chosen = id === undefined ? undefined : newest.get(id);
    if (chosen === undefined || chosen === file) continue;
    const message = `${file.path} is not installed, because ${chosen.path} contains ${id} ${versionIn(chosen)}.`;
    replaced.set(
      file,
      new BackplaneError("package.conflict", message, { fix: "Remove one of the two files." }),
    );
  }
  return replaced;
}

function instrumentIn({ inspection }: InspectedFile): InstrumentInfo | undefined {
  return inspection.packages[0]?.manifest?.runtime.instrument;
}

function versionIn({ inspection }: InspectedFile): string {
  return inspection.packages[0]!.version;
}

/** Resolves to null when the plugin may load now. */
export async function findDependencyProblem(
  bound: BoundPackage,
  plugins: Plugins,
  readDefinitions: (bound: BoundPackage) => MaybePromise<Definitions | null>,
): Promise<BackplaneError | null> {
  const instrument = instrumentOf(bound);
  if (instrument === null || instrument.dependencies.length === 0) return null;
  const cycle = sortByDependencies(
    toDependencyNodes(new Map([...plugins, [instrument.plugin_id, bound]])),
  ).cycles.get(instrument.plugin_id);
  if (cycle !== undefined)
    return dependencyError(instrument.plugin_id, `its dependencies form a cycle: ${cycle}`);
  for (const id of instrument.dependencies) {
    const dependency = plugins.get(id);
    if (dependency === undefined)
      return dependencyError(instrument.plugin_id, `its dependency ${id} is not installed and bound`);
    const row = await readDefinitions(dependency);
    if (row === null) return dependencyError(instrument.plugin_id, `its dependency ${id} is not loaded yet`);
    if (row.error !== null) {
      return dependencyError(instrument.plugin_id, `its dependency ${id} did not load: ${row.error.message}`);
    }
  }
  return null;
}

/** Returns the plugins that depend on `plugin_id`. */
export function findDependents(plugins: Plugins, plugin_id: string): BoundPackage[] {
  return [...plugins.values()].filter((bound) => instrumentOf(bound)?.dependencies.includes(plugin_id));
}

function toDependencyNodes(plugins: Plugins): { name: string; requires: readonly string[] }[] {
  return [...plugins].map(([name, bound]) => ({ name, requires: instrumentOf(bound)?.dependencies ?? [] }));
}

function dependencyError(plugin_id: string, reason: string): BackplaneError {
  return new BackplaneError("plugin.dependency", `${plugin_id} is skipped: ${reason}.`);
}
