/** The instrument plugins of a scope: bindings of whole packages that bring instruments, by the id of the plugin. */

import type { Runtime } from "@backplane/contract";
import type { BindingStore, BoundPackage, Scope } from "@backplane/ports";

export type InstrumentInfo = NonNullable<Runtime["instrument"]>;

/** Null: no instrument plugin. One of our own packages that only speaks the protocol has no id there. */
export function instrumentOf({ package: pack }: Pick<BoundPackage, "package">): InstrumentInfo | null {
  return pack.manifest.runtime.instrument ?? null;
}

/** Active ones that `scope` sees. Of two with one id the newer binding counts, as it does in the catalog. */
export async function instrumentPlugins(
  bindings: Pick<BindingStore, "discover">,
  scope: Scope,
): Promise<Map<string, BoundPackage>> {
  const found = new Map<string, BoundPackage>();
  for (const bound of await bindings.discover(scope, "tool")) {
    const info = instrumentOf(bound);
    if (info === null) continue;
    const other = found.get(info.plugin_id);
    if (other === undefined || other.binding.created_at < bound.binding.created_at)
      found.set(info.plugin_id, bound);
  }
  return found;
}
