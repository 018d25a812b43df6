/** Opens the configured store: SQLite in the home, or a PostgreSQL database that several gateways share. */
import { BackplaneError } from "@backplane/contract";
import type { ArtifactFiles, Logger, SharedPackages, Store } from "@backplane/ports";
import { openPostgresStore, openSqliteStore } from "@backplane/store";
import { openArtifactStore } from "@backplane/supply";
import type { GatewayConfig } from "../config/config.ts";
import type { Home } from "../home/home.ts";

export interface OpenedStore {
  store: Store;
  artifacts: ArtifactFiles;
  /** Null if the files of packages are only in the home. */
  shared_packages: SharedPackages | null;
}

/** Gateways that share a database also share the artifacts of calls and the files of packages. */
export async function openStore(config: GatewayConfig, home: Home, log: Logger): Promise<OpenedStore> {
  const { url } = config.store;
  if (url === undefined) {
    const store = await openSqliteStore({ file: home.store_file, log });
    return { store, artifacts: openArtifactStore(home.blobs), shared_packages: null };
  }
  if (/^postgres(ql)?:\/\//.test(url)) {
    const store = await openPostgresStore({ url, lease_ms: config.node.lease_ms, log });
    return { store, artifacts: store.artifacts, shared_packages: store.shared_packages };
  }
  throw new BackplaneError("config.invalid", "store.url is not a PostgreSQL URL.", {
    fix: 'Set store.url = "postgres://USER@HOST/DATABASE", or remove it to use SQLite in the home folder.',
  });
}
