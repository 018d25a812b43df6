/** Bindings of described packages, with what their running thing said it offers in place of the empty manifest. */

import { type Definitions, isDescribed, type MaybePromise, mapMaybe } from "@backplane/contract";
import type { BindingStore, BoundPackage, DefinitionStore } from "@backplane/ports";
import { expandExports, selectExport } from "../exports/whole-package.ts";

/** What the door and discovery read of bindings: of one export each, but for `get`, which answers as it is stored. */
export type BindingSource = Pick<BindingStore, "get" | "candidates" | "discover">;

/** A stored binding as it was dressed last, and its exports that were asked for since. */
interface Dressed {
  definitions: Definitions;
  whole: BoundPackage;
  exports: Map<string, BoundPackage | null>;
}

const NO_SUCH_EXPORTS_KEPT = 256;

export function withDefinitions(stored: BindingSource, definitions: DefinitionStore): BindingSource {
  // The store answers the same values until something changes: a call must not pay for dressing them again.
  const known = new WeakMap<BoundPackage, Dressed>();
  const dressedBy = (bound: BoundPackage, given: Definitions): Dressed => {
    let made = known.get(bound);
    if (made?.definitions !== given) {
      made = { definitions: given, whole: dress(bound, given), exports: new Map() };
      known.set(bound, made);
    }
    return made;
  };
  const definitionsOf = ({ binding: { binding_id, scope } }: BoundPackage) =>
    definitions.get(scope.org_id, binding_id);
  /** Nothing is offered before the first answer. */
  const dressed = (bound: BoundPackage): MaybePromise<BoundPackage> =>
    mapMaybe(definitionsOf(bound), (given) => (given === null ? bound : dressedBy(bound, given).whole));
  const dressedExport = (bound: BoundPackage, given: Definitions | null, export_id: string) => {
    if (given === null) return selectExport(bound, export_id);
    const { whole, exports } = dressedBy(bound, given);
    const there = exports.get(export_id);
    if (there !== undefined) return there;
    const one = selectExport(whole, export_id);
    // Anybody can ask for names that nothing has.
    if (one !== null || exports.size < NO_SUCH_EXPORTS_KEPT) exports.set(export_id, one);
    return one;
  };
  const exportOf = (bound: BoundPackage, export_id: string): MaybePromise<BoundPackage | null> =>
    asks(bound)
      ? mapMaybe(definitionsOf(bound), (given) => dressedExport(bound, given, export_id))
      : selectExport(bound, export_id);
  return {
    get: (scope, id) =>
      mapMaybe(stored.get(scope, id), (bound) => (bound === null || !asks(bound) ? bound : dressed(bound))),
    candidates: (scope, export_id, package_id) =>
      mapMaybe(stored.candidates(scope, export_id, package_id), (bounds) =>
        together(bounds.map((bound) => exportOf(bound, export_id))),
      ),
    async discover(scope, kind) {
      const found: BoundPackage[] = [];
      for (const bound of await stored.discover(scope, kind)) {
        found.push(...expandExports(asks(bound) ? await dressed(bound) : bound));
      }
      return found;
    },
  };
}

/** Those that are any. */
function together(found: MaybePromise<BoundPackage | null>[]): MaybePromise<BoundPackage[]> {
  const there: BoundPackage[] = [];
  for (const one of found) {
    if (one instanceof Promise) return allOf(found);
    if (one !== null) there.push(one);
  }
  return there;
}

async function allOf(found: MaybePromise<BoundPackage | null>[]): Promise<BoundPackage[]> {
  const all = await Promise.all(found.map((one) => Promise.resolve(one)));
  return all.filter((one) => one !== null);
}

function asks(bound: BoundPackage): boolean {
  return isDescribed(bound.package.manifest.runtime.protocol);
}

function dress(bound: BoundPackage, definitions: Definitions): BoundPackage {
  const { manifest, schemas } = bound.package;
  return {
    ...bound,
    package: {
      ...bound.package,
      manifest: { ...manifest, exports: definitions.exports },
      schemas: { ...schemas, ...definitions.schemas },
    },
    described: definitions.digest,
  };
}
