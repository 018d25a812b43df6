/**
 * Bindings of packages that describe themselves, with the described tools in place of the manifest's empty list. The
 * door reads bindings through this source for every call, so results are cached per stored row and returned without a
 * promise when the store has them in memory (benchmarks http.invoke, mcp.http-call).
 */

import { type Definitions, isSelfDescribing, type MaybePromise, mapMaybe } from "@backplane/contract";
import type { BindingStore, BoundPackage, DefinitionStore, Description } from "@backplane/ports";
import { expandExports, selectExport } from "../exports/whole-package.ts";

/**
 * The reads of the door and of discovery. `findCandidates` and `discover` return bindings of one export each; `get`
 * does not expand a binding of a whole package.
 */
export type BindingSource = Pick<BindingStore, "get" | "findCandidates" | "discover">;

/** A stored binding with its definitions applied, and the exports that were selected from it since. */
interface DescribedPackage {
  definitions: Definitions;
  described: BoundPackage;
  exports: Map<string, BoundPackage | null>;
}

const MAX_CACHED_EXPORTS = 256;

export function withDefinitions(stored: BindingSource, definitions: DefinitionStore): BindingSource {
  // The store returns the same objects until something changes, so they can be keys of the cache.
  const cache = new WeakMap<BoundPackage, DescribedPackage>();
  const applyCached = (bound: BoundPackage, definitions: Definitions): DescribedPackage => {
    let applied = cache.get(bound);
    if (applied?.definitions !== definitions) {
      applied = { definitions, described: applyDefinitions(bound, definitions), exports: new Map() };
      cache.set(bound, applied);
    }
    return applied;
  };
  const readDefinitions = ({ binding: { binding_id, scope } }: BoundPackage) =>
    definitions.get(scope.org_id, binding_id);
  /** Without definitions the binding offers no tools yet. */
  const describe = (bound: BoundPackage): MaybePromise<BoundPackage> =>
    mapMaybe(readDefinitions(bound), (definitions) =>
      definitions === null ? bound : applyCached(bound, definitions).described,
    );
  const selectDescribed = (bound: BoundPackage, definitions: Definitions | null, export_id: string) => {
    if (definitions === null) return selectExport(bound, export_id);
    const { described, exports } = applyCached(bound, definitions);
    const cached = exports.get(export_id);
    if (cached !== undefined) return cached;
    const selected = selectExport(described, export_id);
    // Any caller can request names that do not exist, so only some of them are cached.
    if (selected !== null || exports.size < MAX_CACHED_EXPORTS) exports.set(export_id, selected);
    return selected;
  };
  const selectFrom = (bound: BoundPackage, export_id: string): MaybePromise<BoundPackage | null> =>
    needsDefinitions(bound)
      ? mapMaybe(readDefinitions(bound), (definitions) => selectDescribed(bound, definitions, export_id))
      : selectExport(bound, export_id);
  return {
    get: (scope, id) =>
      mapMaybe(stored.get(scope, id), (bound) =>
        bound === null || !needsDefinitions(bound) ? bound : describe(bound),
      ),
    findCandidates: (scope, export_id, package_id) =>
      mapMaybe(stored.findCandidates(scope, export_id, package_id), (bound_packages) =>
        dropNull(bound_packages.map((bound) => selectFrom(bound, export_id))),
      ),
    async discover(scope, kind) {
      const bound_packages: BoundPackage[] = [];
      for (const bound of await stored.discover(scope, kind)) {
        bound_packages.push(...expandExports(needsDefinitions(bound) ? await describe(bound) : bound));
      }
      return bound_packages;
    },
  };
}

/** Drops null entries. */
function dropNull(selections: MaybePromise<BoundPackage | null>[]): MaybePromise<BoundPackage[]> {
  const bound_packages: BoundPackage[] = [];
  for (const pending of selections) {
    if (pending instanceof Promise) return dropNullAsync(selections);
    if (pending !== null) bound_packages.push(pending);
  }
  return bound_packages;
}

async function dropNullAsync(selections: MaybePromise<BoundPackage | null>[]): Promise<BoundPackage[]> {
  const all = await Promise.all(selections.map((pending) => Promise.resolve(pending)));
  return all.filter((item) => item !== null);
}

function needsDefinitions(bound: BoundPackage): boolean {
  return isSelfDescribing(bound.package.manifest.runtime.protocol);
}

/** Returns the package with the tools that its process has described, although they are not stored. */
export function withTools(bound: BoundPackage, { exports, schemas }: Description): BoundPackage {
  return applyDefinitions(bound, { exports, schemas, digest: bound.package.digest });
}

function applyDefinitions(
  bound: BoundPackage,
  definitions: Pick<Definitions, "exports" | "schemas" | "digest">,
): BoundPackage {
  const { manifest, schemas } = bound.package;
  return {
    ...bound,
    package: {
      ...bound.package,
      manifest: { ...manifest, exports: definitions.exports },
      schemas: { ...schemas, ...definitions.schemas },
    },
    definitions_digest: definitions.digest,
  };
}
