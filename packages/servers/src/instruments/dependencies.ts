/**
 * A plugin is loaded after those that it depends on (instr.lifecycle). One whose dependency is missing, did not load or
 * depends on it in turn is skipped with an error of its own, and the rest load.
 */

import { BackplaneError, type Definitions, type MaybePromise } from "@backplane/contract";
import type { BoundPackage } from "@backplane/ports";
import { sortByDependencies } from "@backplane/registry";
import { instrumentOf } from "./instrument-plugins.ts";

type Plugins = ReadonlyMap<string, BoundPackage>;

/** Each after its dependencies; those in a circle last, where they are told so. */
export function loadOrder(plugins: Plugins): BoundPackage[] {
  const { cycles, names } = sortByDependencies(nodesOf(plugins));
  return [...names, ...cycles.keys()].flatMap((id) => plugins.get(id) ?? []);
}

/** Null: it may load now. */
export async function dependencyProblem(
  bound: BoundPackage,
  plugins: Plugins,
  loaded: (bound: BoundPackage) => MaybePromise<Definitions | null>,
): Promise<BackplaneError | null> {
  const own = instrumentOf(bound);
  if (own === null || own.dependencies.length === 0) return null;
  const circle = sortByDependencies(nodesOf(new Map([...plugins, [own.plugin_id, bound]]))).cycles.get(
    own.plugin_id,
  );
  if (circle !== undefined) return skipped(own.plugin_id, `its dependencies go round in a circle: ${circle}`);
  for (const id of own.dependencies) {
    const needed = plugins.get(id);
    if (needed === undefined)
      return skipped(own.plugin_id, `it depends on ${id}, which is not installed and bound here`);
    const row = await loaded(needed);
    if (row === null) return skipped(own.plugin_id, `it depends on ${id}, which is not loaded yet`);
    if (row.error !== null) {
      return skipped(own.plugin_id, `it depends on ${id}, which did not load: ${row.error.message}`);
    }
  }
  return null;
}

/** Those that name `plugin_id` among their dependencies. */
export function dependentsOf(plugins: Plugins, plugin_id: string): BoundPackage[] {
  return [...plugins.values()].filter((bound) => instrumentOf(bound)?.dependencies.includes(plugin_id));
}

function nodesOf(plugins: Plugins): { name: string; requires: readonly string[] }[] {
  return [...plugins].map(([name, bound]) => ({ name, requires: instrumentOf(bound)?.dependencies ?? [] }));
}

function skipped(plugin_id: string, why: string): BackplaneError {
  return new BackplaneError("plugin.dependency", `${plugin_id} is skipped: ${why}.`);
}
