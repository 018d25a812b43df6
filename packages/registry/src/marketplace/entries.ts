/** Reads the entries of all catalogs. The first catalog that has an id wins, so no other can replace a bundled entry. */
import type { MarketplaceEntry } from "@backplane/contract";
import type { CatalogContents, KernelDeps } from "@backplane/ports";

export interface FoundEntry {
  entry: MarketplaceEntry;
  catalog: CatalogContents;
}

export interface MarketplaceEntries {
  entries: readonly FoundEntry[];
  catalogs: readonly CatalogContents[];
}

export async function readMarketplaceEntries({
  marketplace,
}: Pick<KernelDeps, "marketplace">): Promise<MarketplaceEntries> {
  const catalogs = (await marketplace?.read()) ?? [];
  const entries_by_id = new Map<string, FoundEntry>();
  for (const catalog of catalogs)
    for (const entry of catalog.entries)
      if (!entries_by_id.has(entry.id)) entries_by_id.set(entry.id, { entry, catalog });
  return { entries: [...entries_by_id.values()], catalogs };
}
