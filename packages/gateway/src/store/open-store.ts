/** What lasts, as the configuration says: a file in the home, or a PostgreSQL that several gateways share. */
import { BackplaneError } from "@backplane/contract";
import type { Logger } from "@backplane/ports";
import type { ArtifactFiles, Store } from "@backplane/ports";
import { openPostgresStore, openSqliteStore } from "@backplane/store";
import { openArtifactStore } from "@backplane/supply";
import type { GatewayConfig } from "../config/config.ts";
import type { Home } from "../home/home.ts";

/** Gateways on one PostgreSQL share what calls handed over, too. */
export async function openStore(
  config: GatewayConfig,
  home: Home,
  log: Logger,
): Promise<{ store: Store; artifacts: ArtifactFiles }> {
  const { url } = config.store;
  if (url === undefined) {
    const store = await openSqliteStore({ file: home.store_file, log });
    return { store, artifacts: openArtifactStore(home.blobs) };
  }
  if (/^postgres(ql)?:\/\//.test(url)) {
    const store = await openPostgresStore({ url, lease_ms: config.node.lease_ms, log });
    return { store, artifacts: store.artifacts };
  }
  throw new BackplaneError("config.invalid", "store.url is no PostgreSQL address", {
    fix: 'write store.url = "postgres://USER@HOST/DATABASE", or leave it out for SQLite in the home folder',
  });
}
