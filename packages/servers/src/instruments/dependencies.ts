/**
 * A plugin is loaded after the plugins that it depends on (instr.lifecycle). A plugin whose dependency is missing,
 * did not load or is part of a cycle is skipped with an error, and the others load.
 */

import { BackplaneError, type Definitions, type MaybePromise } from "@backplane/contract";
import type { BoundPackage } from "@backplane/ports";
import { sortByDependencies } from "@backplane/registry";
import { instrumentOf } from "./instrument-plugins.ts";

type Plugins = ReadonlyMap<string, BoundPackage>;

/** Returns each plugin after its dependencies, but plugins of a cycle last, so that each of them gets its error. */
export function sortForLoading(plugins: Plugins): BoundPackage[] {
  const { cycles, names } = sortByDependencies(toDependencyNodes(plugins));
  return [...names, ...cycles.keys()].flatMap((id) => plugins.get(id) ?? []);
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
