/** The instrument plugins of a scope by plugin id: bindings of whole packages that contain instruments. */

import type { Runtime } from "@backplane/contract";
import type { BindingStore, BoundPackage, Scope } from "@backplane/ports";

export type InstrumentInfo = NonNullable<Runtime["instrument"]>;

/** Returns null for other packages, including our own packages that only use the instrument protocol. */
export function instrumentOf({ package: pack }: Pick<BoundPackage, "package">): InstrumentInfo | null {
  return pack.manifest.runtime.instrument ?? null;
}

/** Reads the active plugins that `scope` sees. If two have the same id, the newer binding is used. */
export async function readInstrumentPlugins(
  bindings: Pick<BindingStore, "discover">,
  scope: Scope,
): Promise<Map<string, BoundPackage>> {
  const plugins = new Map<string, BoundPackage>();
  for (const bound of await bindings.discover(scope, "tool")) {
    const info = instrumentOf(bound);
    if (info === null) continue;
    const existing = plugins.get(info.plugin_id);
    if (existing === undefined || existing.binding.created_at < bound.binding.created_at)
      plugins.set(info.plugin_id, bound);
  }
  return plugins;
}
