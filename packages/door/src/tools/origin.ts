/** Where a tool comes from, as the catalog and the policy name it. The host decides it; no package can. */

import type { Origin } from "@backplane/contract";
import type { BoundPackage } from "@backplane/ports";

export function originOf({ package: pack }: Pick<BoundPackage, "package">): Origin {
  const { origin, manifest } = pack;
  if (origin === "core" || origin === "workspace" || origin === "bundled") return origin;
  return manifest.runtime.protocol.startsWith("mcp.") ? "mcp" : "plugin";
}
