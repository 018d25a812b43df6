/** Reads the catalogs of the marketplace: the bundled one, and the files and URLs that the operator configured. */
import { readFile, stat } from "node:fs/promises";
import { join } from "node:path";
import type { ListedServer } from "@backplane/contract";
import { MarketplaceCatalogSchema } from "@backplane/contract/schema";
import type { CatalogContents, MarketplaceCatalogs } from "@backplane/ports";
import { BUNDLED_CATALOG } from "./bundled-catalog.ts";
import { DocumentCache, type DocumentCacheOptions } from "./document-cache.ts";
import { readListedServers, searchUrl } from "./mcp-registry.ts";

export interface MarketplaceOptions extends DocumentCacheOptions {
  /** Absolute paths and https URLs. */
  catalogs: readonly string[];
  mcp_registry: string | null;
}

export const MAX_SEARCHES = 32;
const MAX_FILE_BYTES = 4 * 1024 * 1024;

export function createMarketplaceCatalogs(
  options: MarketplaceOptions,
): MarketplaceCatalogs & { close(): void } {
  const cache = new DocumentCache(options);
  // Each search text has its own response, so the number of these copies is limited.
  const searches = new DocumentCache({
    ...options,
    folder: join(options.folder, "searches"),
    max_copies: MAX_SEARCHES,
  });
  const parse = (json: unknown) => {
    const parsed = MarketplaceCatalogSchema.safeParse(json);
    if (parsed.success) return parsed.data;
    const [issue] = parsed.error.issues;
    throw new Error(
      `The catalog is not valid: ${issue?.path.join(".") ?? ""} ${issue?.message ?? ""}`.trim(),
    );
  };

  async function read(location: string): Promise<CatalogContents> {
    try {
      if (!URL.canParse(location) || location.startsWith("/"))
        return fromFile(location, await readText(location));
      const { json, ...age } = await cache.read(new URL(location), parse);
      const { name, entries } = parse(json);
      return { origin: { name, location, ...age }, entries };
    } catch (error) {
      const problem = (error as Error).message;
      return { origin: { name: location, location, fetched_at: null, stale: true, problem }, entries: [] };
    }
  }

  function fromFile(location: string, text: string): CatalogContents {
    const { name, entries } = parse(JSON.parse(text));
    return { origin: { name, location, fetched_at: null, stale: false, problem: null }, entries };
  }

  return {
    async read() {
      const { name, entries } = parse(BUNDLED_CATALOG);
      const origin = { name, location: "bundled", fetched_at: null, stale: false, problem: null };
      return [{ origin, entries }, ...(await Promise.all(options.catalogs.map(read)))];
    },
    async searchServers(text) {
      const { mcp_registry: location } = options;
      if (location === null) return { items: [], registry: null };
      const name = new URL(location).host;
      try {
        const { json, ...age } = await searches.read(
          searchUrl(location, text),
          (json) => void readListedServers(json),
        );
        return { items: readListedServers(json), registry: { name, location, ...age } };
      } catch (error) {
        const items: ListedServer[] = [];
        const problem = (error as Error).message;
        return { items, registry: { name, location, fetched_at: null, stale: true, problem } };
      }
    },
    close() {
      cache.close();
      searches.close();
    },
  };
}

async function readText(file: string): Promise<string> {
  const { size } = await stat(file);
  if (size > MAX_FILE_BYTES) throw new Error(`The catalog is larger than ${MAX_FILE_BYTES} bytes.`);
  return await readFile(file, "utf8");
}
