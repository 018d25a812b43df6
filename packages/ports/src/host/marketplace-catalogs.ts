import type { MarketplaceEntry, MarketplaceOrigin, ServerSearch } from "@backplane/contract";

/** The entries of one catalog, checked against the schema. */
export interface CatalogContents {
  origin: MarketplaceOrigin;
  entries: readonly MarketplaceEntry[];
}

/** The catalogs of the marketplace and the registry of public MCP servers, as the operator configured them. */
export interface MarketplaceCatalogs {
  /** Lists the bundled catalog first. A catalog that cannot be read is listed with the reason in `origin.problem`. */
  read(): Promise<readonly CatalogContents[]>;
  /** Searches the configured registry of MCP servers. */
  searchServers(text: string): Promise<ServerSearch>;
}
