/** The state of a shared PostgreSQL database for `doctor` and `status`. Only reads. */
import { toPostgresError } from "./errors.ts";
import { explainConnection } from "./explain-connection.ts";

const TIMEOUT_MS = 5_000;

export interface DatabaseSummary {
  /** Whether the database detects a page that was damaged on its disk. */
  page_checksums: boolean;
  /** 0 if no gateway has used the database yet. */
  schema_version: number;
  bytes: number;
}

/** Throws `store.unavailable` if the database cannot be read. */
export async function readDatabaseSummary(url: string): Promise<DatabaseSummary> {
  const { default: driver } = await import("pg");
  const client = new driver.Client({
    connectionString: url,
    connectionTimeoutMillis: TIMEOUT_MS,
    query_timeout: TIMEOUT_MS,
  });
  // A connection that breaks rejects its query too.
  client.on("error", () => {});
  try {
    await client.connect();
    const { rows } = await client.query<{ checksums: string; bytes: string; used: boolean }>(
      `select current_setting('data_checksums') as checksums, pg_database_size(current_database())::text as bytes,
        to_regclass('schema_version') is not null as used`,
    );
    const { checksums, bytes, used } = rows[0]!;
    const schema = used
      ? await client.query<{ version: number }>(
          "select coalesce(max(version), 0) as version from schema_version",
        )
      : null;
    return {
      page_checksums: checksums === "on",
      schema_version: schema?.rows[0]?.version ?? 0,
      bytes: Number(bytes),
    };
  } catch (error) {
    throw explainConnection(error, url) ?? toPostgresError(error);
  } finally {
    await client.end().catch(() => {});
  }
}
