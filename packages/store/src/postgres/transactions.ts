/** Transactions whose outcome is looked up when the connection breaks. */
import type pg from "pg";
import { isConflict } from "./errors.ts";

/** How long to query the status of a commit whose response was lost. The database must be back by then. */
const STATUS_MS = 600_000;
const RETRY_MS = 500;

/**
 * When a connection breaks during `commit`, the client does not know whether the transaction was committed. The
 * database can report it by the transaction's id, even after a restart, so it is queried before the outcome is
 * reported. When this function throws, nothing was written, unless the database was unavailable for longer than STATUS_MS.
 */
export async function inTransaction<T>(
  pool: pg.Pool,
  work: (client: pg.PoolClient) => Promise<T>,
): Promise<T> {
  const client = await pool.connect();
  let connection_error: Error | undefined;
  let xid: string | null = null;
  let value: T;
  try {
    // One round trip; the results are an array.
    const results = await client.query("begin; select pg_current_xact_id()::text as xid");
    const [, { rows }] = results as unknown as [unknown, { rows: { xid: string }[] }];
    value = await work(client);
    xid = rows[0]!.xid;
    await client.query("commit");
    return value;
  } catch (error) {
    if (xid !== null && mayHaveCommitted(error)) {
      connection_error = error as Error;
      if (await wasCommitted(pool, xid, error)) return value!;
      throw error;
    }
    await client.query("rollback").catch((failure: Error) => {
      connection_error = failure;
    });
    throw error;
  } finally {
    // A connection that cannot roll back is discarded.
    client.release(connection_error);
  }
}

/** False when the database itself refused the transaction: a conflict, a constraint, an invalid value. */
function mayHaveCommitted(error: unknown): boolean {
  const code = (error as { code?: unknown } | null)?.code;
  return !(typeof code === "string" && /^(2[23]|4\d)\w{3}$/.test(code));
}

async function wasCommitted(pool: pg.Pool, xid: string, reason: unknown): Promise<boolean> {
  return await retryUntilAnswered(async () => {
    const text = "select pg_xact_status($1::xid8) as status";
    const { rows } = await pool.query<{ status: string | null }>(text, [xid]);
    const status = rows[0]?.status;
    if (status === "in progress") throw new Error("the transaction has not ended yet");
    return status === "committed";
  }, reason);
}

/** Retries until the database responds. Throws `reason` if it does not within STATUS_MS. */
async function retryUntilAnswered<T>(query: () => Promise<T>, reason: unknown): Promise<T> {
  const end = performance.now() + STATUS_MS;
  for (;;) {
    try {
      return await query();
    } catch {
      if (performance.now() > end) throw reason;
      await new Promise((resolve) => setTimeout(resolve, RETRY_MS));
    }
  }
}

/**
 * Inserts a row that has its own id with one statement and no transaction. When the connection breaks, it is unknown
 * whether the row was stored. The row is then inserted again once the database is back; a conflict means that the first
 * insertion succeeded.
 */
export async function insertOnce<T>(
  pool: pg.Pool,
  insert: (client: pg.PoolClient) => Promise<T>,
  duplicate: T,
): Promise<T> {
  const client = await pool.connect();
  let connection_error: Error | undefined;
  try {
    return await insert(client);
  } catch (error) {
    if (!mayHaveCommitted(error)) throw error;
    connection_error = error as Error;
  } finally {
    client.release(connection_error);
  }
  return await retryUntilAnswered(async () => {
    try {
      return await inTransaction(pool, insert);
    } catch (error) {
      if (isConflict(error)) return duplicate;
      throw error;
    }
  }, connection_error);
}
