/** Bindings of described packages, with what their running thing said it offers in place of the empty manifest. */
import { type Definitions, isDescribed } from "@backplane/contract";
import { asExport, eachExport } from "../bindings/whole-package.ts";
import type { BindingStore, BoundPackage, DefinitionStore } from "../ports/index.ts";

/** What the door and discovery read of bindings: of one export each, but for `get`, which answers as it is stored. */
export type BindingSource = Pick<BindingStore, "get" | "candidates" | "discover">;

export function withDefinitions(stored: BindingSource, definitions: DefinitionStore): BindingSource {
  const dressed = async (bound: BoundPackage): Promise<BoundPackage> => {
    const { binding_id, scope } = bound.binding;
    return dress(bound, await definitions.get(scope.org_id, binding_id));
  };
  return {
    async get(scope, id) {
      const bound = await stored.get(scope, id);
      return bound === null || !asks(bound) ? bound : await dressed(bound);
    },
    async candidates(scope, export_id, package_id) {
      const found: BoundPackage[] = [];
      for (const bound of await stored.candidates(scope, export_id, package_id)) {
        const one = asExport(asks(bound) ? await dressed(bound) : bound, export_id);
        if (one !== null) found.push(one);
      }
      return found;
    },
    async discover(scope, kind) {
      const found: BoundPackage[] = [];
      for (const bound of await stored.discover(scope, kind)) {
        found.push(...eachExport(asks(bound) ? await dressed(bound) : bound));
      }
      return found;
    },
  };
}

function asks(bound: BoundPackage): boolean {
  return isDescribed(bound.package.manifest.runtime.protocol);
}

/** Nothing is offered before the first answer. */
function dress(bound: BoundPackage, definitions: Definitions | null): BoundPackage {
  if (definitions === null) return bound;
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
