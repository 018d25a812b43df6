/** Where a tool comes from, as the catalog and the policy name it. The host decides it; no package can. */
import type { Origin } from "@backplane/contract";
import type { BoundPackage } from "../ports/index.ts";

export function originOf({ package: pack }: Pick<BoundPackage, "package">): Origin {
  switch (pack.origin) {
    case "core":
    case "workspace":
    case "bundled":
      return pack.origin;
    default:
      return pack.manifest.runtime.protocol.startsWith("mcp.") ? "mcp" : "plugin";
  }
}
