/** What `doctor` can tell of a PostgreSQL that gateways share. Reads one setting and changes nothing. */
import { toPostgresError } from "./errors.ts";

const ANSWER_MS = 5_000;

/** Whether the database notices a page that was damaged on its disk. Throws `store.unavailable`. */
export async function hasPageChecksums(url: string): Promise<boolean> {
  const { default: driver } = await import("pg");
  const client = new driver.Client({
    connectionString: url,
    connectionTimeoutMillis: ANSWER_MS,
    query_timeout: ANSWER_MS,
  });
  // A connection that breaks rejects its query too.
  client.on("error", () => {});
  try {
    await client.connect();
    const { rows } = await client.query<{ data_checksums: string }>("show data_checksums");
    return rows[0]?.data_checksums === "on";
  } catch (error) {
    throw toPostgresError(error);
  } finally {
    await client.end().catch(() => {});
  }
}
