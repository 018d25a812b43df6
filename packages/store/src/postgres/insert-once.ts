/**
 * A row with an id of its own, inserted by one statement without a transaction. When the connection breaks, it is open
 * whether the row is there; it is inserted again once the database is back, and a duplicate says that it was.
 */
import type pg from "pg";
import { isConflict } from "./errors.ts";
import { inTransaction, mayHaveCommitted, untilAnswered } from "./in-transaction.ts";

export async function insertOnce<T>(
  pool: pg.Pool,
  insert: (on: pg.PoolClient) => Promise<T>,
  duplicate: T,
): Promise<T> {
  const client = await pool.connect();
  let broken: Error | undefined;
  try {
    return await insert(client);
  } catch (error) {
    if (!mayHaveCommitted(error)) throw error;
    broken = error as Error;
  } finally {
    client.release(broken);
  }
  return await untilAnswered(async () => {
    try {
      return await inTransaction(pool, insert);
    } catch (error) {
      if (isConflict(error)) return duplicate;
      throw error;
    }
  }, broken);
}
