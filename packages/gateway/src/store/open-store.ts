/** Opens the configured store: SQLite in the home, or a PostgreSQL database that several gateways share. */
import { BackplaneError } from "@backplane/contract";
import type { ArtifactFiles, Logger, Store } from "@backplane/ports";
import { openPostgresStore, openSqliteStore } from "@backplane/store";
import { openArtifactStore } from "@backplane/supply";
import type { GatewayConfig } from "../config/config.ts";
import type { Home } from "../home/home.ts";

/** Gateways that share a database also share the artifacts of calls. */
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
  throw new BackplaneError("config.invalid", "store.url is not a PostgreSQL URL.", {
    fix: 'Set store.url = "postgres://USER@HOST/DATABASE", or remove it to use SQLite in the home folder.',
  });
}
