/** The version on the card of the marketplace entry that a package was installed from. */
import type { KernelDeps, CatalogContents } from "@backplane/ports";
import { readMarketplaceEntries } from "../marketplace/entries.ts";
import { type FindNewest, unknownVersion } from "./available-version.ts";

export function createEntryVersions(deps: Pick<KernelDeps, "marketplace">): FindNewest {
  return async (_caller, pack) => {
    const { entries, catalogs } = await readMarketplaceEntries(deps);
    const found = entries.find(({ entry }) => entry.id === pack.marketplace);
    if (found === undefined) {
      const problems = catalogs.flatMap(({ origin }) => describeCatalogProblem(origin) ?? []);
      const message = `No catalog has the marketplace entry ${pack.marketplace ?? ""}.`;
      return unknownVersion([message, ...problems].join(" "));
    }
    const { entry, catalog } = found;
    const { package_id, version } = entry.package;
    if (package_id !== pack.package_id)
      return unknownVersion(`The marketplace entry ${entry.id} is for ${package_id} now.`);
    if (entry.status !== "available")
      return unknownVersion(
        `The marketplace entry ${entry.id} cannot be installed now. ${entry.reason ?? ""}`.trim(),
      );
    if (version === pack.version && digestOf(entry.oci) !== digestOf(pack.oci?.reference ?? null))
      return unknownVersion(
        `The marketplace entry ${entry.id} now has other content under the version ${version}, which cannot replace the installed content. Ask its publisher for a new version.`,
      );
    const source = `marketplace:${entry.id}`;
    return { newest_available: version, source, note: describeCatalogProblem(catalog.origin) };
  };
}

/** Null for a catalog that was read now, or recently enough. */
function describeCatalogProblem({ name, problem, fetched_at }: CatalogContents["origin"]): string | null {
  if (problem === null) return null;
  return fetched_at === null
    ? `The catalog ${name} cannot be read: ${problem}`
    : `The catalog ${name} cannot be read, so its copy from ${fetched_at} is used: ${problem}`;
}

function digestOf(reference: string | null): string | null {
  return reference?.split("@")[1] ?? null;
}
