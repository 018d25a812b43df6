/** The versions of installed packages that are in use, and the newest ones at their sources. */
import { z } from "zod";
import { PackageSchema } from "./package.ts";
import { ProvenanceSchema } from "./provenance.ts";

export const OutdatedPackageSchema = z.object({
  package_id: z.string(),
  origin: PackageSchema.shape.origin,
  /** As `plugin install` accepts it, with the newest version; null if the source of the package was not recorded. */
  source: z.string().nullable(),
  /** The versions of the bindings that the caller sees; empty if the package is not bound. */
  in_use: z.array(z.string()),
  newest_installed: z.string(),
  /** The newest version at the source; null if it is unknown, so the package may be outdated. */
  newest_available: z.string().nullable(),
  /** The provenance of the newest available version; only for packages from npm. */
  provenance: ProvenanceSchema.optional(),
  /** Whether a newer version than one in use is installed or available. */
  outdated: z.boolean(),
  /** Why the newest available version is unknown, or how old the information about it is. */
  note: z.string().nullable(),
});

export type OutdatedPackage = z.infer<typeof OutdatedPackageSchema>;
