/** The kind, schema and size of the configured store, and its last backup, for `status` and `doctor`. */
import { join } from "node:path";
import type { StoreSummary } from "@backplane/ports";
import { readDatabaseSummary, readStoreSchemaVersion, readStoreSize } from "@backplane/store";
import type { GatewayConfig } from "../config/config.ts";
import { readLastBackup } from "../home/last-backup.ts";

export async function readStoreSummary({ home, store: { url } }: GatewayConfig): Promise<StoreSummary> {
  const last_backup_at = readLastBackup(home)?.at ?? null;
  if (url !== undefined) {
    const { schema_version, bytes } = await readDatabaseSummary(url);
    return { kind: "postgres", schema_version, bytes, last_backup_at };
  }
  const file = join(home, "store.db");
  const schema_version = readStoreSchemaVersion(file);
  return { kind: "sqlite", schema_version, bytes: readStoreSize(file), last_backup_at };
}
