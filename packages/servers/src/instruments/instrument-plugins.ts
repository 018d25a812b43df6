/** The instrument plugins of a scope by plugin id: bindings of whole packages that contain instruments. */

import type { Runtime } from "@backplane/contract";
import { selectListed } from "@backplane/door";
import type { BindingStore, BoundPackage, Scope } from "@backplane/ports";
import { takesTraffic } from "@backplane/registry";

export type InstrumentInfo = NonNullable<Runtime["instrument"]>;

/** Returns null for other packages, including our own packages that only use the instrument protocol. */
export function instrumentOf({ package: pack }: Pick<BoundPackage, "package">): InstrumentInfo | null {
  return pack.manifest.runtime.instrument ?? null;
}

/**
 * Reads the active plugins that `scope` sees. If several bindings have the same plugin id, the binding that the
 * catalog shows is used: a caller of the whole org gets the org's binding, if there is one, and a binding without
 * traffic comes last.
 */
export async function readInstrumentPlugins(
  bindings: Pick<BindingStore, "discover">,
  scope: Scope,
): Promise<Map<string, BoundPackage>> {
  const by_id = new Map<string, BoundPackages>();
  for (const bound of await bindings.discover(scope, "tool")) {
    const info = instrumentOf(bound);
    if (info === null) continue;
    const existing = by_id.get(info.plugin_id);
    if (existing === undefined) by_id.set(info.plugin_id, [bound]);
    else existing.push(bound);
  }
  return new Map([...by_id].map(([plugin_id, candidates]) => [plugin_id, selectServing(candidates, scope)]));
}

type BoundPackages = [BoundPackage, ...BoundPackage[]];

function selectServing(candidates: BoundPackages, { project_id }: Scope): BoundPackage {
  const isEligible = ({ binding }: BoundPackage) => project_id !== null || binding.scope.project_id === null;
  const eligible = selectPreferred(candidates, isEligible);
  return selectListed(selectPreferred(eligible, takesTraffic));
}

/** Returns the bindings that `isPreferred` accepts; all of them if it accepts none. */
function selectPreferred(
  candidates: BoundPackages,
  isPreferred: (bound: BoundPackage) => boolean,
): BoundPackages {
  const [first, ...others] = candidates.filter(isPreferred);
  return first === undefined ? candidates : [first, ...others];
}
