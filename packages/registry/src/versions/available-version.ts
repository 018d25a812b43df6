import type { OutdatedPackage, Package } from "@backplane/contract";
import type { Caller, Operation } from "@backplane/ports";

/** The newest version at the source of a package. */
export type AvailableVersion = Pick<OutdatedPackage, "newest_available" | "source" | "note" | "provenance">;

/** Throws if the source cannot be read. */
export type FindNewest = (caller: Caller, pack: Package, operation: Operation) => Promise<AvailableVersion>;

export function unknownVersion(note: string): AvailableVersion {
  return { newest_available: null, source: null, note };
}

export const UPGRADE_HINT =
  "To upgrade, specify the source of the next version: backplane plugin upgrade --from SOURCE.";
